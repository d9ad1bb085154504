"""The agent side: the Planning capability and the runner. The only place that imports pydantic_ai."""
