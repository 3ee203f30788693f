"""From token ids to text: detokenization, stops and logprobs."""
