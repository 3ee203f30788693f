"""Tool types and token names of mistral-common, without its tokenizer."""

# replaces mistral_common 1.13.1: sha256:129fa4a81d2ab982d91cdbc81a11e02fb3d9feeb6d857a1133c2e0c781793f15
