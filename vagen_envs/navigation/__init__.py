"""Navigation: a home robot in first person follows an instruction to find an object."""
