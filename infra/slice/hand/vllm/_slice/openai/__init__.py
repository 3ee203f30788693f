"""The types of the `openai` package that vLLM's wire types are made of, without the client.

The modules below `types` are openai's own. They live here so that importing them does not run `openai/__init__`, and so
that the real package, where it is installed, stays untouched.
"""

# replaces openai 3.57.0: sha256:9053303ae84bf9c6931bee9e7f3064b482e51e0690a4b89bf823ff97fb0f649b
