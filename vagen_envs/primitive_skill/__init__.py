"""PrimitiveSkill: a robot arm that picks, places and pushes, on ManiSkill 3 and SAPIEN."""

ENV_ID = "vagen/PrimitiveSkill-v0"
