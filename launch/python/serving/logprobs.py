"""Log-probabilities of tokens, from the engine's form to those of the two kinds of completions. The engine gives for each token
{"id", "bytes": [...], "logprob", "top": [the same, most probable first]}."""


def text_of(entry):
    return bytes(entry.get('bytes') or []).decode(errors='replace')


def alternative(entry):
    return {'token': text_of(entry), 'logprob': entry['logprob'], 'bytes': entry.get('bytes') or []}


def chat(entries, wanted):
    """`wanted`: alternatives per token."""
    return {'content': [alternative(entry) | {'top_logprobs': [alternative(other) for other in entry.get('top', [])[:wanted]]}
                        for entry in entries], 'refusal': None}


def completion(entries, wanted, offset):
    """`offset`: characters of text before the first token."""
    offsets = []
    for entry in entries:
        offsets.append(offset)
        offset += len(text_of(entry))
    return {'tokens': [text_of(entry) for entry in entries], 'token_logprobs': [entry['logprob'] for entry in entries],
            'top_logprobs': [{text_of(other): other['logprob'] for other in entry.get('top', [])[:wanted]} for entry in entries],
            'text_offset': offsets}
