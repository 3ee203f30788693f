"""Turns that continue token for token: the next prompt of a conversation holds the ids that were sampled.

A plain prompt is encoded from the *text* of the earlier answers, and its ids
are often not the ones that the model sampled. Here the caller brings the ids
of the last prompt and its output, and they stay where they can. No module
knows a model: they see the text that the chat template writes, and ids.

    asked.py          what a request asks for, bounded before any work
    state.py          turn_state: the few facts about the last prompt that a caller carries, signed
    packing.py        ids as short text
    pieces.py         ids to text and back, piece by piece
    exact.py          ids stay where their text is that of the plain prompt
    append.py         ids stay whatever the template makes of them now
    said.py           whether the answer that was sent back is what its ids say
    continuation.py   the prompt of a request that continues
    begin.py          a request that continues: its field, and the last turn
    answered.py       derender's word on which ids answered a prompt; streamed.py: of a stream
    cache.py          last turns that a relay keeps
    carried.py        ids that came back on the messages of a conversation
"""
