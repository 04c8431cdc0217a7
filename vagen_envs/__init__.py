"""Five vision environments for language-speaking agents, registered with Gymnasium."""
