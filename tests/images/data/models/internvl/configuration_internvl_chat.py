"""The configuration class that InternVL's repositories bring: a plain holder of its parts."""

from transformers import AutoConfig, PretrainedConfig


class InternVLChatConfig(PretrainedConfig):
    model_type = "internvl_chat"
    is_composition = True

    def __init__(self, vision_config=None, llm_config=None, **kwargs):
        # First: what the base class checks asks for the text's configuration.
        self.vision_config = PretrainedConfig(**(vision_config or {}))
        self.llm_config = AutoConfig.for_model(**(llm_config or {"model_type": "qwen2"}))
        super().__init__(**kwargs)

    def get_text_config(self, decoder=None, encoder=None):
        return self.llm_config
