"""The one door to vLLM: no other module of ``core``, ``handlers`` or ``infra`` imports it.

Each module is one room. What vLLM's code is given, and what comes back, is
explained there; everything else in this project knows vLLM's behaviour, and
not where its code lies.

    version          which vLLM it is
    model_view       a model's configuration as vLLM's code sees it
    requests         request types: validating a body
    messages         Anthropic's Messages: request types, and the chat request that one stands for
    responses        OpenAI's Responses: request types, what a request says to a model, items and envelope of an answer
    responses_harmony, responses_output, responses_events
                     its messages for gpt-oss models, its way to read an output, and the events of its items
    refusals         what vLLM's code raises over a request, as the error that the client gets
    parsers          choosing a parser class, building a parser, reading an output with it
    reading          what reading an output gives
    parser_state     vLLM's classes that a parser's state is made of
    tables           what is known of the parsers of each version, a package of data each: v0_33
    conversations    messages, template arguments and the chat template
    templates        compiling and rendering one template
    encoders         models that have code in place of a chat template
    harmony          the format of gpt-oss models
    mistral          what vLLM asks of Mistral's tokenizer and parser
    sampling         how many tokens an output may have

A plain deployment (no parser, nothing rendered) imports nothing of vLLM when
it starts: ``version``, ``model_view``, ``requests``, ``refusals``,
``parser_state`` and ``mistral`` import vLLM inside their functions, the other
rooms when they are imported. The packages of data import nothing of vLLM.
"""
