"""NeMo Gym: an agent that sends each observation with its picture.

deploy/nemo_gym/responses_api_agents/vagen_agent/app.py starts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from vagen_adapters.context import (
    ContextPolicy,
    Message,
    chat_messages,
    summary_messages,
)
from vagen_adapters.ends import ends_of
from vagen_adapters.episode_metrics import episode_metrics, reward_terms
from vagen_adapters.errors import not_importable
from vagen_adapters.nemo_gym_messages import items_of, pictures_of
from vagen_envs.core import Observation, Turn

try:
    from nemo_gym.openai_utils import (
        NeMoGymEasyInputMessage,
        NeMoGymResponse,
        accumulate_response_usage,
    )
    from nemo_gym.server_utils import get_response_json, raise_for_status
    from pydantic import AfterValidator, Field
    from resources_servers.gymnasium import EnvResetResponse, EnvStepResponse, extract_text
    from responses_api_agents.gymnasium_agent.app import (
        GymnasiumAgent,
        GymnasiumAgentConfig,
        GymnasiumAgentRunRequest,
        GymnasiumRunResponse,
    )
except ImportError as error:
    raise not_importable("vagen_adapters.nemo_gym_agent", "nemo-gym", "nemo_gym", error) from error

BROKEN = "vagen:environment_broke"
"""The `failure_kind` of an episode whose simulator broke; its sample is masked."""


class AgentConfig(GymnasiumAgentConfig):
    """Configuration of `VagenAgent`."""

    max_steps: int = Field(100, ge=1)
    """Maximum number of replies per episode; the environment's own `max_turns` is usually lower."""
    context: Annotated[str, AfterValidator(lambda text: str(ContextPolicy.parse(text)))] = (
        "all,reasoning=keep"
    )
    """What a prompt shows of earlier turns, see `vagen_adapters.context`. `reasoning=keep` sends
    the model's output items back as they came, with their token ids."""


class _Model:
    """The model of an episode, behind its server.

    Attributes:
        outputs: all that it wrote, and was shown after its first prompt.
        usage: the tokens of all its replies.
    """

    def __init__(
        self, agent: VagenAgent, params: Any, opening: Sequence[Any], url_path: str
    ) -> None:
        self._agent = agent
        self._params = params
        self._opening = opening
        self._url_path = url_path
        self._cookies: Any = None
        self.outputs: list[Any] = []
        self.usage: Any = None

    async def ask(self, messages: list[Message], *, is_first: bool = False) -> NeMoGymResponse:
        if not is_first:
            self.outputs += items_of(messages[-1:])
        shown = [*self._opening, *items_of(messages[1:])]
        answer = await self._agent.server_client.post(
            server_name=self._agent.config.model_server.name,
            url_path=self._url_path,
            json=self._params.model_copy(update={"input": shown}),
            cookies=self._cookies,
        )
        await raise_for_status(answer)
        self._cookies = answer.cookies
        response = NeMoGymResponse.model_validate(await get_response_json(answer))
        self.usage = accumulate_response_usage(self.usage, response.usage)
        self.outputs += response.output
        return response


class VagenAgent(GymnasiumAgent):
    """NeMo Gym's agent for `VagenServer`; observations are user messages with pictures.

    The result of an episode adds `success`, `turns` and the mean turn metrics, `reward_components`
    (reward terms summed over the episode) and `turns_played` (turns as JSON, with pictures by hash,
    for `vagen_envs.Turn.from_json`).
    """

    config: AgentConfig

    async def _run_open_episode(
        self,
        body: GymnasiumAgentRunRequest,
        model_url_path: str,
        reset_data: EnvResetResponse,
        env_cookies: Any,
    ) -> GymnasiumRunResponse:
        params = body.responses_create_params.model_copy(deep=True)
        if isinstance(params.input, str):
            params.input = [NeMoGymEasyInputMessage(role="user", content=params.input)]
        policy = ContextPolicy.parse(self.config.context)
        opening = list(params.input)
        pictures = pictures_of(reset_data)
        now = Observation(reset_data.observation, pictures[0] if pictures else None)
        params.input = [*opening, *items_of(chat_messages("", (), now)[1:])]
        model = _Model(self, params, opening, model_url_path)
        turns: list[Turn] = []
        replies: list[list[Any]] = []
        summaries: dict[int, str] = {}
        past: dict[str, Any] = {"context": policy, "hidden": replies, "summaries": summaries}
        broke = ""
        for number in range(self.config.max_steps):
            if policy.summarises_before(number):
                request = summary_messages("", turns, **past)
                summaries[number] = extract_text(await model.ask(request))
            prompt = chat_messages("", turns, now, **past)
            response = await model.ask(prompt, is_first=not number)
            replies.append(response.output)
            played = await self._post_turn(body, response, number, env_cookies)
            if isinstance(played, str):
                broke = played
                break
            pictures += pictures_of(played)
            by_hash = {picture.sha256: picture for picture in pictures}
            turns.append(Turn.from_json(played.info["turn"], by_hash))
            now = turns[-1].result
            if played.terminated or played.truncated:
                break
        response = response.model_copy(update={"output": model.outputs, "usage": model.usage})
        return GymnasiumRunResponse(
            responses_create_params=params,
            response=response,
            reward=sum(turn.reward for turn in turns),
            **ends_of(turns),
            mask_sample=bool(broke),
            failure_kind=BROKEN if broke else None,
            failure_reason=broke or None,
            reward_components=reward_terms(turns),
            turns_played=[turn.to_json() for turn in turns],
            **episode_metrics(turns),
        )

    async def _post_turn(
        self, body: GymnasiumAgentRunRequest, response: NeMoGymResponse, number: int, cookies: Any
    ) -> EnvStepResponse | str:
        """What a reply led to, or what the server says of a simulator that broke.

        Such a sample is masked instead of scored 0.
        """
        turn = body.model_dump() | {
            "response": response.model_dump(),
            "_ng_step_request_id": str(number),
        }
        played = await self.server_client.post(
            server_name=self.config.resources_server.name,
            url_path="/step",
            json=turn,
            cookies=cookies,
        )
        if played.status == 500:
            return str(await get_response_json(played))
        await raise_for_status(played)
        return EnvStepResponse.model_validate(await get_response_json(played))
