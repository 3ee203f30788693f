"""This service against full vLLM, both run here: ``make parity``.

The slice's parsers against full vLLM's on the same inputs (``parsers``), and a
part of the recorded corpus against real ``vllm launch render`` processes and
against ours (``servers``), and pictures for every family of models, where full
vLLM can read some (``images``). Runs from a checkout: the inputs and the recording
are in ``tests``. It must never be imported by what is deployed.
"""
