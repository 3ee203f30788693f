"""A second, faster encoder beside ``tokenizers``, used where it was proved to give the same ids.

The package ``fastokens`` is optional. ``encoder.py`` holds one tokenizer in it, ``proof.py`` says for which tokenizer,
in which versions and on which kind of machine the ids were compared, ``comparison.py`` compares them over the texts of
``corpus.py``, ``load.py`` gives a tokenizer its encoder.
"""
