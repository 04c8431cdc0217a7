"""Navigation: a home robot in first person follows an instruction to find an object."""

ENV_ID = "vagen/Navigation-v0"
