"""NeMo Gym: an agent that sends each observation with its picture.

deploy/nemo_gym/responses_api_agents/vagen_agent/app.py starts it.
"""

from __future__ import annotations

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
        opening, pictures = list(params.input), pictures_of(reset_data)
        now = Observation(reset_data.observation, pictures[0] if pictures else None)
        params.input = [*opening, *items_of(chat_messages("", (), now)[1:])]
        outputs: list[Any] = []  # all that the model wrote, and was shown after its first prompt
        turns: list[Turn] = []
        replies: list[list[Any]] = []
        summaries: dict[int, str] = {}
        past: dict[str, Any] = {"context": policy, "hidden": replies, "summaries": summaries}
        usage, cookies = None, None
        step = EnvStepResponse()
        broke = ""

        async def ask(messages: list[Message]) -> NeMoGymResponse:
            nonlocal usage, cookies
            request = params.model_copy(update={"input": [*opening, *items_of(messages[1:])]})
            answer = await self.server_client.post(
                server_name=self.config.model_server.name,
                url_path=model_url_path,
                json=request,
                cookies=cookies,
            )
            await raise_for_status(answer)
            cookies = answer.cookies
            response = NeMoGymResponse.model_validate(await get_response_json(answer))
            usage = accumulate_response_usage(usage, response.usage)
            outputs.extend(response.output)
            return response

        for number in range(self.config.max_steps):
            if policy.summarises_before(number):
                request = summary_messages("", turns, **past)
                outputs.extend(items_of(request[-1:]))
                summaries[number] = extract_text(await ask(request))
            prompt = chat_messages("", turns, now, **past)
            if number:
                outputs.extend(items_of(prompt[-1:]))
            response = await ask(prompt)
            replies.append(response.output)
            turn = body.model_dump() | {
                "response": response.model_dump(),
                "_ng_step_request_id": str(number),
            }
            played = await self.server_client.post(
                server_name=self.config.resources_server.name,
                url_path="/step",
                json=turn,
                cookies=env_cookies,
            )
            if played.status == 500:  # the simulator broke: mask the sample instead of scoring 0
                broke = str(await get_response_json(played))
                break
            await raise_for_status(played)
            step = EnvStepResponse.model_validate(await get_response_json(played))
            pictures += pictures_of(step)
            turns.append(
                Turn.from_json(step.info["turn"], {picture.sha256: picture for picture in pictures})
            )
            now = turns[-1].result
            if step.terminated or step.truncated:
                break
        response = response.model_copy(update={"output": outputs, "usage": usage})
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
