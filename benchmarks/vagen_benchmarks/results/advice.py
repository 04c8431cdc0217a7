"""What went wrong in a run, how often, and what mends it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vagen_benchmarks.endings import Stop

RESUME_HELPS = frozenset({Stop.UNREACHABLE, Stop.TIMEOUT, Stop.RATE_LIMITED, Stop.SERVER_ERROR, Stop.NONSENSE,
                          Stop.ENVIRONMENT})  # fmt: skip
"""What may be gone by itself the next time. Everything else has to be mended first."""

MENDS: Sequence[tuple[str, str, str]] = (
    (r"HTTP 401|HTTP 403", "", "the endpoint refuses the key: set {key} to one that may use this model"),
    (r"HTTP 402|insufficient_quota|exceeded your current quota", "", "the account is out of money: top it up"),
    (r"HTTP 404", "", "the endpoint has no such model or path: check the model's id and --base-url (it mostly ends "
                      "with /v1)"),
    (r"HTTP 3\d\d", "", "keys don't follow redirects: give the address it redirects to as --base-url"),
    (r"temperature", "rejected", "the model takes no temperature: --temperature none"),
    (r"max_tokens|max_completion_tokens", "rejected",
     "the request's name for the limit of tokens isn't right: give the model's provider a token_field (--models)"),
    (r"effort|thinking", "rejected", "the model doesn't take this --effort: leave it out, or see its provider's words"),
    (r"HTTP 413", "proxy", "a proxy before the model takes nothing of this size: raise its limit (nginx: "
                           "client_max_body_size), or --history shows fewer turns"),
    (r"", "proxy", "what stands before the model refuses with a web page: mend that, or --base-url"),
    (r"HTTP 413", "", "the request is too large: --history shows fewer turns"),
    (r"HTTP 4\d\d", "rejected", "the endpoint refuses the request as it is; resume would be refused again"),
    (r"refused|Connect call failed", "unreachable", "nothing listens there: start the server, or mend --base-url"),
    (r"Name or service|nodename|getaddrinfo|DNS", "unreachable", "the host isn't known: mend --base-url"),
    (r"certificate|SSL", "unreachable", "the connection isn't trusted: mend --base-url or the machine's certificates"),
    (r"", "unreachable", "the endpoint can't be reached: see whether it runs"),
    (r"", "timeout", "the endpoint is too slow: --timeout, or fewer requests in flight (--concurrency)"),
    (r"", "rate_limited", "the account's limits are reached: fewer requests in flight (--concurrency), --patience"),
    (r"stream of events", "nonsense", "the endpoint streams: leave out what asks it to (--extra), or mend the proxy"),
    (r"web page|text/html", "nonsense", "that is a web page, not an API: mend --base-url (it mostly ends with /v1)"),
    (r"", "nonsense", "the endpoint doesn't speak its provider's protocol: mend --base-url or the provider"),
    (r"", "server_error", "the endpoint is broken: see its own log"),
    (r"", "agent", "the agent raised an error: mend it"),
    (r"", "environment", "the environment broke: vagen doctor"),
)  # fmt: skip
"""Words of the failure, its kind ("" for any), and the mend. The first that fits."""


@dataclass(frozen=True)
class Advice:
    """What happened to how many episodes, what mends it, and whether to resume without mending anything helps."""

    count: int
    what: str
    mend: str
    resume_helps: bool


def advise(failures: Mapping[tuple[str, str], int], key: str = "the key") -> list[Advice]:
    """The failures of a run, those of one cause together, the most frequent first.

    Args:
        failures: kind and message → how often.
        key: the environment variable that holds the agents' key.
    """
    found: Counter[tuple[str, str, bool]] = Counter()
    first: dict[tuple[str, str, bool], str] = {}
    for (kind, message), count in failures.items():
        mend = next(each for words, of, each in MENDS if of in ("", kind) and re.search(words, message, re.IGNORECASE))
        cause = (kind, mend.format(key=key), Stop(kind) in RESUME_HELPS)
        found[cause] += count
        first.setdefault(cause, message)
    return [Advice(count, first[cause], cause[1], cause[2]) for cause, count in found.most_common()]
