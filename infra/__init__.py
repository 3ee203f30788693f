"""Everything that builds, ships or runs the functions: the vLLM slice, model folders, bundles, the command line."""
