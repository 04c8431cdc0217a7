"""Who plays: scripted agents, models, trained ones, a person, and yours."""

from vagen_benchmarks.agents.base import Agent, AsyncAgent, Call, Game, Reply

__all__ = ["Agent", "AsyncAgent", "Call", "Game", "Reply"]
