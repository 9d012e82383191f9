"""Chat templates in the forms that the documentation of model families describes, in short: what they demand of messages, where they put
tools, calls, results and thinking."""

CHATML = '''{%- if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}{% endif %}
{%- for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}'''

# Qwen2.5 and 3: Hermes' tags; results within a turn of the user; an empty thought where thinking is not wanted.
QWEN = '''{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- "# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\\n</tools>\\n\\nReturn calls within <tool_call></tool_call><|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last=messages|length - 1, found=false) %}
{%- for m in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if not ns.found and m.role == 'user' and m.content is string and not(m.content.startswith('<tool_response>')) %}
        {%- set ns.found = true %}{%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for m in messages %}
    {%- if m.role == 'user' %}{{- '<|im_start|>user\\n' + m.content + '<|im_end|>\\n' }}
    {%- elif m.role == 'assistant' %}
        {%- set reasoning = m.reasoning_content if m.reasoning_content is string else '' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > ns.last and reasoning %}{{- '<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' }}{%- endif %}
        {{- m.content.split('</think>')[-1].lstrip('\\n') }}
        {%- for call in m.tool_calls or [] %}
            {%- if (loop.first and m.content) or not loop.first %}{{- '\\n' }}{%- endif %}
            {{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {%- if call.function.arguments is string %}{{- call.function.arguments }}{%- else %}{{- call.function.arguments | tojson }}
                {%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}{{- '<|im_end|>\\n' }}
    {%- elif m.role == 'tool' %}{{- '<|im_start|>user\\n<tool_response>\\n' + m.content + '\\n</tool_response><|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}'''

# Llama 3.1 to 3.3: tools in the first turn of the user, one bare JSON object with parameters per turn, results from ipython.
LLAMA3 = '''{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}{%- set system = messages[0]['content']|trim %}{%- set messages = messages[1:] %}
{%- else %}{%- set system = '' %}{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' }}{% if tools is not none and tools is defined %}
    {{- 'Environment: ipython\\n' }}{% endif %}
{{- 'Today Date: ' + strftime_now('%d %b %Y') + '\\n\\n' + system + '<|eot_id|>' }}
{%- if tools %}
    {%- set first = messages[0]['content']|trim %}{%- set messages = messages[1:] %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\nRespond in the format {"name": function name, "parameters": dictionary}.\\n\\n' }}
    {%- for t in tools %}{{- t | tojson(indent=4) }}{{- '\\n\\n' }}{%- endfor %}{{- first + '<|eot_id|>' }}
{%- endif %}
{%- for m in messages %}
    {%- if not (m.role == 'ipython' or m.role == 'tool' or 'tool_calls' in m) %}
        {{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in m %}
        {%- if not m.tool_calls|length == 1 %}{{- raise_exception('This model only supports single tool-calls at once!') }}{%- endif %}
        {%- set call = m.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + call.name + '", "parameters": ' }}
        {{- call.arguments | tojson }}{{- '}<|eot_id|>' }}
    {%- else %}
        {{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' }}
        {%- if m.content is mapping or m.content is iterable %}{{- m.content | tojson }}{%- else %}{{- m.content }}{%- endif %}
            {{- '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}{# <|python_tag|> #}'''

# Mistral: ids of nine characters, turns that alternate, tools before the last turn of the user.
MISTRAL = '''{%- if messages[0]['role'] == 'system' %}{%- set system = messages[0]['content'] %}{%- set loop_messages = messages[1:] %}
{%- else %}{%- set loop_messages = messages %}{%- endif %}
{%- set users = loop_messages | selectattr('role', 'equalto', 'user') | list %}
{%- set ns = namespace(index=0) %}
{%- for m in loop_messages %}
    {%- if not (m.role == 'tool' or (m.role == 'assistant' and m.tool_calls is defined and m.tool_calls is not none)) %}
        {%- if (m['role'] == 'user') != (ns.index % 2 == 0) %}{{- raise_exception('roles must alternate user and assistant') }}{%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for m in loop_messages %}
    {%- if m['role'] == 'user' %}
        {%- if tools is not none and tools is defined and m == users[-1] %}
            {{- '[AVAILABLE_TOOLS][' }}
            {%- for tool in tools %}{{- tool | tojson }}{%- if not loop.last %}{{- ', ' }}{%- endif %}{%- endfor %}
                {{- '][/AVAILABLE_TOOLS]' }}
        {%- endif %}
        {{- '[INST]' + (system + '\\n\\n' if loop.last and system is defined else '') + m['content'] + '[/INST]' }}
    {%- elif m.tool_calls is defined and m.tool_calls is not none %}
        {{- '[TOOL_CALLS][' }}
        {%- for call in m.tool_calls %}
            {%- set out = call.function | tojson %}{{- out[:-1] }}
            {%- if call.id is not defined or call.id | length != 9 %}{{- raise_exception('Tool call IDs should be of length 9!') }}
                {%- endif %}
            {{- ', "id": "' + call.id + '"}' }}{{- ', ' if not loop.last else ']' + eos_token }}
        {%- endfor %}
    {%- elif m['role'] == 'assistant' %}{{- m['content'] + eos_token }}
    {%- elif m['role'] == 'tool' %}
        {%- if m.tool_call_id is not defined or m.tool_call_id | length != 9 %}{{- raise_exception('IDs should be of length 9!') }}
            {%- endif %}
        {{- '[TOOL_RESULTS]{"content": ' + m.content | tojson + ', "call_id": "' + m.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- endif %}
{%- endfor %}'''

# gpt-oss: channels; what the server calls system is for its developer; thinking stays with the calls of a round.
HARMONY = '''
    {{- '<|start|>system<|message|>Current date: ' + strftime_now('%Y-%m-%d') + '\\n\\nReasoning: ' + (reasoning_effort or 'medium') }}
{{- '\\n\\n# Valid channels: analysis, commentary, final.<|end|>' }}
{%- if messages[0].role in ['developer', 'system'] %}{%- set instructions = messages[0].content %}{%- set rest = messages[1:] %}
{%- else %}{%- set instructions = '' %}{%- set rest = messages %}{%- endif %}
{%- if instructions or tools %}
    {{- '<|start|>developer<|message|># Instructions\\n\\n' + instructions }}
    {%- if tools %}{{- '\\n\\n# Tools\\n\\nnamespace functions {' }}
        {%- for t in tools %}{{- '\\n// ' + t.function.description + '\\ntype ' + t.function.name + ' = (_: {' }}
            {%- for name, its in t.function.parameters.properties.items() %}{{- '\\n' + name + ': ' + its.type }}{%- endfor %}
                {{- '\\n}) => any;' }}
        {%- endfor %}{{- '\\n} // namespace functions' }}
    {%- endif %}{{- '<|end|>' }}
{%- endif %}
{%- set last = namespace(call=none) %}
{%- for m in rest %}
    {%- if m.role == 'assistant' and 'tool_calls' in m %}
        {%- if m.content and m.thinking %}{{- raise_exception('Cannot pass both content and thinking with tool calls!') }}
        {%- elif m.content or m.thinking %}
            {{- '<|start|>assistant<|channel|>analysis<|message|>' + (m.content or m.thinking) + '<|end|>' }}{%- endif %}
        {%- set call = m.tool_calls[0].function %}{%- set last.call = call.name %}
        {{- '<|start|>assistant to=functions.' + call.name + '<|channel|>commentary json<|message|>' }}{{- call.arguments | tojson }}
        {{- '<|call|>' }}
    {%- elif m.role == 'assistant' %}{{- '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}
    {%- elif m.role == 'tool' %}
        {%- if last.call is none %}{{- raise_exception('Message has tool role, but there was no previous tool call!') }}{%- endif %}
        {{- '<|start|>functions.' + last.call + ' to=assistant<|channel|>commentary<|message|>' + m.content | tojson + '<|end|>' }}
    {%- else %}{{- '<|start|>user<|message|>' + m.content + '<|end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}'''

# DeepSeek R1 and V3: arguments are added as a text; a turn of calls has no content; thinking begins in the prompt. No list of tools.
DEEPSEEK = '''{%- set ns = namespace(tool=false, system='') -%}
{%- for m in messages %}{%- if m['role'] == 'system' %}{%- set ns.system = m['content'] %}{%- endif %}{%- endfor -%}
{{- bos_token + ns.system }}{% if tools %}{{ '\\n' }}{% for t in tools %}{{ t.function | tojson }}{% endfor %}{% endif %}
{%- for m in messages %}
    {%- if m['role'] == 'user' %}{%- set ns.tool = false -%}{{- '<｜User｜>' + m['content'] }}{%- endif %}
    {%- if m['role'] == 'assistant' and m['content'] is none %}
        {{- '<｜Assistant｜><｜tool▁calls▁begin｜>' }}
        {%- for tool in m['tool_calls'] %}
            {{- ('' if loop.first else '\\n') + '<｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + tool['function']['name'] }}
            {{- '\\n```json\\n' + tool['function']['arguments'] + '\\n```<｜tool▁call▁end｜>' }}
        {%- endfor %}{{- '<｜tool▁calls▁end｜><｜end▁of▁sentence｜>' }}
    {%- elif m['role'] == 'assistant' %}
        {{- ('<｜tool▁outputs▁end｜>' if ns.tool else '<｜Assistant｜>') + m['content'].split('</think>')[-1] + '<｜end▁of▁sentence｜>' }}
        {%- set ns.tool = false %}
    {%- elif m['role'] == 'tool' %}
        {{- ('' if ns.tool else '<｜tool▁outputs▁begin｜>') + '<｜tool▁output▁begin｜>' + m['content'] + '<｜tool▁output▁end｜>' }}
        {%- set ns.tool = true %}
    {%- endif %}
{%- endfor -%}
{%- if ns.tool %}{{- '<｜tool▁outputs▁end｜>' }}{%- elif add_generation_prompt %}{{- '<｜Assistant｜><think>\\n' }}{%- endif %}'''

# Gemma 1 and 2: no system prompt, no tools, turns that alternate.
GEMMA = '''{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for m in messages %}
    {%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}
    {{- '<start_of_turn>' + ('model' if m['role'] == 'assistant' else m['role']) + '\\n' + m['content'] | trim + '<end_of_turn>\\n' }}
{%- endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}'''

PHI3 = '''{% for m in messages %}{{ '<|' + m['role'] + '|>\\n' + m['content'] + '<|end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}'''
PHI4 = '''{% for m in messages %}{{ '<|im_start|>' + m['role'] + '<|im_sep|>' + m['content'] + '<|im_end|>' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}'''
