"""Play cooperative two-player Sokoban with PettingZoo. Needs `vagen-envs[pettingzoo]`.

The oracle plays both agents. Each agent has its own picture, reply and reward terms.
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
            print(agent, [action.text for action in turn.executed], round(rewards[agent], 2))
    print("solved:", infos["player_0"]["turn"].success)


if __name__ == "__main__":
    main()
