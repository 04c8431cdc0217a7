"""FrozenLake: walk to the goal and keep out of the holes."""
