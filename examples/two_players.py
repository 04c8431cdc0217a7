"""Two agents, one board: cooperative Sokoban as a PettingZoo environment. Needs `vagen-envs[pettingzoo]`.

The oracle plays for both. Each agent has its own picture, reply and reward terms.
"""

from __future__ import annotations

from vagen_adapters import vagen_two_player_sokoban_v0


def main() -> None:
    env = vagen_two_player_sokoban_v0.parallel_env()
    _, infos = env.reset(seed=7, options={"split": "test"})
    while env.agents:
        _, rewards, _, _, infos = env.step(env.oracle_replies())
        for agent, info in infos.items():
            turn = info["turn"]
            print(agent, [each.text for each in turn.executed], round(rewards[agent], 2))
    print("solved:", infos["player_0"]["turn"].success)


if __name__ == "__main__":
    main()
