"""How an answer is split, and what a prompt is made of: for people who look for the right parser.

align.py    which part of a text each piece of an answer is
answer.py   an output, token by token, in chunks and whole
tokens.py   the text of each token
prompt.py   a prompt, token by token, and what of the request is not in it
"""
