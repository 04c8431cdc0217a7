"""Agents: scripted ones, models, trained models, a person, and your own."""

from vagen_benchmarks.agents.base import Agent, AsyncAgent, Call, Game, Reply

__all__ = ["Agent", "AsyncAgent", "Call", "Game", "Reply"]
