"""Chat templates rendered as Jinja2 renders them, in the environment that Hugging Face sets up.

chat_template_test.py TEXT_TOOL [SEED]"""
import json
import pathlib
import random
import sys
import tempfile

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from text_peer import ask

SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 20260312
TEMPLATE = (pathlib.Path(__file__).parent / "qwen_style.jinja").read_text(encoding="utf-8")
TEXTS = ["Hello!", "  What is [1, 2, 3] @ [4, 5, 6]?\n", "", "na\u00efve \u4e2d\u6587 \U0001f600", "<think>\nhm\n</think>\n\n12",
         "</think>", "<think>a</think>b</think>c", "<tool_response>\n7\n</tool_response>", "a\r\nb\tc\x1f\u2028d", "{{ 1 }} {% if %}",
         "<|im_end|>", "\u00a0\u3000x\u2003", 'quotes " and \' and \\', "line\n\n\nline"]


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(line)

    def _support(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


ENVIRONMENT = environment()


def reference(template, variables):
    """The text, or the exception."""
    try:
        return ENVIRONMENT.from_string(template).render(**{"tools": None, "documents": None, "add_generation_prompt": False, **variables})
    except Exception as error:  # noqa: BLE001 - whatever Jinja raises is a refusal
        return error


def compare(answer, theirs, what):
    if isinstance(theirs, Exception):
        assert "error" in answer, f"{what}: ours {answer}, Jinja2 raises {theirs!r}"
    else:
        assert answer.get("text") == theirs, f"{what}:\nours   {answer}\ntheirs {theirs!r}"


def conversations(dice):
    """Fixed ones for every turn, then random ones."""
    system, user, assistant = ({"role": role, "content": text} for role, text in
                               (("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello")))
    yield {"messages": [user], "add_generation_prompt": True}
    yield {"messages": [user], "add_generation_prompt": True, "enable_thinking": False}
    yield {"messages": [user], "add_generation_prompt": True, "enable_thinking": True}
    yield {"messages": [user], "add_generation_prompt": True, "enable_thinking": None}
    yield {"messages": [system, user], "add_generation_prompt": True}
    yield {"messages": [system, user, assistant, user, assistant]}
    yield {"messages": [user, dict(assistant, reasoning_content="because\n"), user], "add_generation_prompt": True}
    yield {"messages": [user, dict(assistant, content="<think>\nwhy\n</think>\n\nso")]}
    yield {"messages": []}
    yield {"messages": [system]}
    yield {"messages": [user, system]}
    yield {"messages": [dict(user, role="poet")]}
    yield {"messages": [dict(user, content=None), assistant]}
    yield {"messages": [dict(user, content=5)]}
    yield {"messages": [{"role": "user"}]}
    tools = [{"type": "function", "function": {"name": "dot", "description": "a\u00b7b < \"c\" & 'd'", "parameters": {
        "type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"], "x": [1, 2.5, 1e-7, 1e20, True, None, {}, []]}}}]
    call = {"type": "function", "function": {"name": "dot", "arguments": {"a": [1, 2], "b": {"c": "\u00e9"}, "n": 3, "f": 0.1, "t": True,
                                                                          "z": None, "s": "text"}}}
    yield {"messages": [user], "tools": tools, "add_generation_prompt": True}
    yield {"messages": [system, user, dict(assistant, tool_calls=[call, call["function"]]), {"role": "tool", "content": "32"},
                        {"role": "tool", "content": "33"}, assistant, user], "tools": tools}
    yield {"messages": [user, {"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "content": "1"}], "tools": tools}
    for _ in range(300):
        messages = []
        for _ in range(dice.randrange(0, 9)):
            role = "system" if dice.random() < 0.03 else dice.choice(("user", "user", "assistant", "assistant", "tool"))
            message = {"role": role, "content": dice.choice(TEXTS)}
            if dice.random() < 0.2:
                message["content"] = [{"type": "text", "text": dice.choice(TEXTS)}, {"type": "image"}, {"text": "x"}][:dice.randrange(4)]
            if role == "assistant" and dice.random() < 0.3:
                message["reasoning_content"] = dice.choice(TEXTS)
            if role == "assistant" and dice.random() < 0.3:
                message["tool_calls"] = [dice.choice((call, call["function"]))] * dice.randrange(3)
            messages.append(message)
        if dice.random() < 0.8:
            messages[:0] = [{"role": role, "content": dice.choice(TEXTS)} for role in dice.choice((("system", "user"), ("user",)))]
        request = {"messages": messages, "add_generation_prompt": dice.random() < 0.5}
        if dice.random() < 0.5:
            request["enable_thinking"] = dice.random() < 0.5
        if dice.random() < 0.3:
            request["tools"] = tools
        yield request


VARIABLES = {
    "n": 7, "zero": 0, "f": 2.5, "s": "Hello World", "u": "\u00e9t\u00e9 \u4e2d\U0001f600", "e": "", "yes": True, "no": False, "nothing": None,
    "l": [3, 1, 2], "w": ["a", "b", "c"], "d": {"one": 1, "two": [2, 2], "items": "mine", "x y": {"z": "deep"}}, "nl": "a\nb\n",
    "people": [{"name": "Ann", "age": 30, "tags": ["x"]}, {"name": "Bob", "age": 25}, {"name": "Cid", "age": 41, "tags": []}]}

# What templates may do, one construct each: rendered by both, or refused by both.
SNIPPETS = r"""
{{ n }} {{ f }} {{ s }} {{ yes }} {{ nothing }} {{ l }} {{ d }} {{ u }} {{ missing }}|
{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }}
{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1e16 }} {{ 1.0 }} {{ 1e-5 }} {{ 0.0001 }} {{ 123456789.125 }} {{ 1e22 }} {{ 5e-324 }} {{ 0.1 + 0.2 }} {{ 1_000 }}
{{ 1 / 0 }}
{{ 'a' + 'b' }} {{ 'a' ~ 1 ~ none }} {{ 'ab' * 3 }} {{ [1] * 2 }} {{ [1] + [2, 'x'] }} {{ 'a' 'b' }}
{{ 'a' + 1 }}
{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 'a' < 'b' }} {{ 1 == 1.0 }} {{ true == 1 }} {{ [1, 2] == [1, 2] }} {{ {'a': 1} == {'a': 1.0} }} {{ 'a' != 'b' }}
{{ 1 < 'a' }}
{{ 'ell' in s }} {{ 'x' not in s }} {{ 2 in l }} {{ 'one' in d }} {{ 'nope' in d }} {{ 1 in missing }} {{ not yes }} {{ not not l }}
{{ 1 in s }}
{{ yes and no or 'x' }} {{ e or 'fallback' }} {{ l and 'has' }} {{ none and 1 }} {{ 0 or none }}
{{ 'a' if yes else 'b' }} {{ 'a' if no }}| {{ 'a' if no else 'b' if no else 'c' }}
{{ l[0] }} {{ l[-1] }} {{ l[5] }}| {{ s[0] }} {{ u[-1] }} {{ u[4] }} {{ d['one'] }} {{ d['nope'] }}| {{ d.two[1] }} {{ d['x y'].z }} {{ d['x y']['z'][0] }}
{{ missing.attribute }}
{{ d.nope.more }}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for k in d %}{{ k }},{% endfor %} {{ d.get('one') }} {{ d.get('q', 5) }} {{ d.get('q') }}
{% for k in d.keys() %}{{ k }}{% endfor %}{% for v in d.values() %}{{ v }}{% endfor %}
{{ s[1:3] }} {{ s[:-2] }} {{ s[::-1] }} {{ s[-3:] }} {{ l[::-1] }} {{ l[1:] }} {{ u[1:5] }} {{ s[10:2:-2] }} {{ l[::2] }} {{ s[5:100] }} {{ s[-100:3] }} {{ l[3:0:-1] }}
{{ l[::0] }}
{{ l['a':] }}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }}{{ loop.cycle('o', 'e') }}{{ loop.changed(x > 1) }} {% endfor %}
{% for x in l if x > 1 %}{{ x }}{{ loop.length }}{% else %}none{% endfor %} {% for x in [] %}{% else %}empty{% endfor %} {% for x in missing %}x{% else %}empty{% endfor %}
{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %} {% for (a, b) in [('x', 'y')] %}{{ a }}{{ b }}{% endfor %} {% for c in u %}{{ c }}.{% endfor %}
{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}
{% for x in 5 %}{{ x }}{% endfor %}
{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if loop.index == 3 %}{% break %}{% endif %}{% endfor %} {% for i in range(3) %}{% for j in range(i) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}
{% for i in range(5) %}{{ i }}{% endfor %} {% for i in range(1, 10, 3) %}{{ i }}{% endfor %} {% for i in range(3, 0, -1) %}{{ i }}{% endfor %} {% for i in range(-2) %}x{% endfor %}
{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }} {% if yes %}{% set y = 2 %}{% endif %}{{ y }} {% set a, b = 1, 2 %}{{ a }}{{ b }} {% set t = 1, 2 %}{{ t }} {% set t = (1,) %}{{ t }} {{ () }}
{% set ns = namespace(x=1, y='a') %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.z }}| {% set ns2 = namespace({'q': 5}, r=6) %}{{ ns2.q + ns2.r }}
{% set d.one = 2 %}
{% set text %}block {{ n }}{% set inner = 5 %}{% endset %}{{ text }}{{ text|length }}{{ inner }}|
{% macro greet(name, mark='!', n=2) %}Hi {{ name }}{{ mark * n }}{% endmacro %}{{ greet('Ann') }} {{ greet('Bob', '?') }} {{ greet(name='Cid', n=1) }} {{ greet() }} {{ greet('x')|length }} {{ greet('x')|upper }}
{% macro greet(name) %}{{ name }}{% endmacro %}{{ greet('a', 'b') }}
{% macro greet(name) %}{{ name }}{% endmacro %}{{ greet(nome='a') }}
{% set g = 1 %}{% macro show() %}{{ g }}{% set g = 5 %}{{ g }}{% endmacro %}{% set g = 2 %}{{ show() }}{{ g }}{% for g in [9] %}{{ show() }}{% endfor %}
{% macro twice(x) %}{{ once(x) }}{{ once(x) }}{% endmacro %}{% macro once(x) %}[{{ x }}]{% endmacro %}{{ twice(twice('a')) }}
{{ s|upper }} {{ s|lower }} {{ 'hELLO wORLD'|capitalize }} {{ u|upper }} {{ '\u00df\u0130'|lower }} {{ '\u00df'|upper }} {{ '\u00dfA'|capitalize }} {{ 5|upper }}
{{ '  x  '|trim }}| {{ 'xxaxx'|trim('x') }} {{ ' \u3000a\x1f\u2003'|trim }}| {{ nothing|trim }} {{ missing|trim }}|
{{ s|length }} {{ u|length }} {{ l|count }} {{ d|length }} {{ missing|length }} {{ e|length }}
{{ 5|length }}
{{ l|first }} {{ l|last }} {{ s|first }} {{ u|last }} {{ []|first }}| {{ l|first|string + 'x' }}
{{ l|join(', ') }} {{ w|join }} {{ people|join('-', attribute='name') }} {{ [1, none, 'x']|join('/') }} {{ 'abc'|join('.') }}
{{ missing|default('d') }} {{ e|default('d') }}| {{ e|default('d', true) }} {{ e|d('x', boolean=true) }} {{ n|default(1) }} {{ missing|default }}| {{ nothing|default('d') }}
{{ l|list }} {{ 'abc'|list }} {{ d|list }} {{ l|reverse|list }} {{ 'abc'|reverse }} {{ d|items|list }} {{ missing|items|list }}
{{ nothing|items|list }}
{{ '42'|int }} {{ ' -7 '|int }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ 3.9|int }} {{ '3.9'|int }} {{ -3.9|int }} {{ none|int }} {{ true|int }} {{ '+5'|int }} {{ '1e3'|int }} {{ '2.5'|float }} {{ 'x'|float }} {{ 3|float }} {{ ''|int }} {{ '-'|int }}
{{ d|tojson }} {{ u|tojson }} {{ '"\\\n\t\x01\x7f/<>&\u2028'|tojson }} {{ [1, 2.0, true, none, 1e100]|tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ (1, 2)|tojson }}
{{ d|tojson(indent=2) }} {{ []|tojson(indent=2) }} {{ {}|tojson(indent=4) }} {{ d|tojson(sort_keys=true) }}
{{ missing|tojson }}
{{ 5|string + 'x' }} {{ none|string }} {{ l|string }} {{ 1.5|string }} {{ true|string|lower }}
{{ s|replace('l', 'L') }} {{ s|replace('l', 'L', 1) }} {{ 'aaa'|replace('aa', 'b') }} {{ 5|replace('5', '6') }}
{{ '<b>'|safe }} {% set m = d|tojson|safe %}{{ m }} {{ m is string }} {{ m|length }}
{{ people|map(attribute='name')|join(',') }} {{ people|map(attribute='tags', default='-')|list }} {{ ['a', 'b']|map('upper')|list }} {{ people|selectattr('age', 'gt', 26)|map(attribute='name')|list }} {{ people|rejectattr('tags')|map(attribute='name')|list }}
{{ [1, 2, 3, 4]|select('even')|list }} {{ [0, 1, '']|select|list }} {{ [1, 2]|reject('odd')|list }} {{ people|selectattr('name', 'equalto', 'Bob')|list }} {{ people|selectattr('tags', 'defined')|list|length }}
{{ -5|abs }} {{ (-5)|abs }} {{ (-2.5)|abs }}
{{ s.strip('Hd') }} {{ s.lstrip('H') }} {{ s.rstrip('d') }} {{ '  x '.strip() }}| {{ s.split() }} {{ s.split('o') }} {{ s.split('o', 1) }} {{ s.rsplit('o', 1) }} {{ ''.split() }} {{ ''.split('x') }} {{ ' a  b '.split() }} {{ 'a b c'.split(none, 1) }} {{ 'a,b'.split(sep=',') }}
{{ s.startswith('He') }} {{ s.endswith(('x', 'ld')) }} {{ s.startswith('') }} {{ s.upper() }} {{ s.lower() }} {{ 'abC'.capitalize() }} {{ s.replace('o', '0') }} {{ ', '.join(w) }} {{ s.find('o') }} {{ s.rfind('o') }} {{ u.find('\u4e2d') }} {{ s.find('q') }} {{ s.count('l') }} {{ s.removeprefix('He') }} {{ s.removesuffix('ld') }} {{ s.removeprefix('x') }}
{{ s.split('') }}
{{ s.startswith(5) }}
{{ ', '.join(l) }}
{{ l.append(4) }}
{{ l.index(1) }} {{ l.count(3) }} {{ d.copy() }}
{{ n is defined }} {{ missing is defined }} {{ missing is undefined }} {{ nothing is none }} {{ n is not none }} {{ s is string }} {{ d is mapping }} {{ l is sequence }} {{ s is sequence }} {{ d is iterable }} {{ n is iterable }} {{ n is number }} {{ yes is number }} {{ n is integer }} {{ yes is integer }} {{ f is float }} {{ yes is boolean }} {{ yes is true }} {{ 1 is true }} {{ no is false }} {{ missing is sequence }} {{ missing is iterable }} {{ missing is mapping }} {{ missing is none }} {{ missing is string }}
{{ 4 is even }} {{ 3 is odd }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ n is eq 7 }} {{ n is ne 7 }} {{ n is gt 5 }} {{ n is in [7] }} {{ 2 is lt(3) }} {{ range is callable }} {{ n is callable }} {{ n is eq 7 and s is string }}
{{ n is nonsense }}
{{ n|nonsense }}
{% nonsense %}
{% if n == 7 %}a{% elif n == 8 %}b{% else %}c{% endif %}{% if no %}x{% elif no %}y{% endif %}{% if missing %}x{% endif %}{% if l, %}tuple{% endif %}
{% if yes %}
{% endif
{{ (1, 2) }} {{ (1) }} {{ [] }} {{ {} }} {{ {'a': [1, {'b': none}]} }} {{ 'it\'s' }} {{ ["it's", 'say "x"', "both ' and \""] }} {{ ['\n\t\\\x00\u2028\u00e9\U0001f600'] }} {{ 1, 2 }}
{{ "a\tb\nc\\d\x41\u00e9\q\101" }} {{ 'multi
line' }}
{# comment #}a{#- strips -#} b {# x #}
{% raw %}{{ n }} {% if %}{% endraw %} {%- raw -%}  x  {%- endraw -%}  y
  {% if yes %}
  indented
  {% endif %}
end
{%- if yes -%}   tight   {%- endif -%}   x
  {%+ if yes %} kept {% endif +%}
newline
{{- n -}}  b  {{+ n }} {{ n -}}
   c
x {% if yes %}inline{% endif %} y
	{% set q = 1 %}	{{ q }}
{% generation %}made{% set g = 1 %}{% endgeneration %}{{ g }}|
{{ raise_exception('no') }}
{{ dict(a=1, b=2) }} {{ dict({'x': 1}, y=2)|tojson }}
{{ people[0]['name'] }} {{ people|first }} {{ (people|last).name }} {{ people[1].tags|default([]) }} {{ (n + 1)|string }} {{ -n }} {{ +n }} {{ - -n }} {{ not n == 7 }}
{% for p in people %}{% for q in people %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{{ undefined_function() }}
{{ n() }}
{{ 9223372036854775807 }}
{{ a.b }}
{{ 'x' }}}} {{ '}}' }} {{ {'a': {'b': 1}}['a'] }}
{{ }}
{{ 1 +
2 }}
{{ [1, 2, ] }} {{ {'a': 1, } }} {{ (1, 2, ) }} {{ range(3)|list }} {{ s.split('o')|join('0') }}
{{ '%s' is string }} {{ 1 if 2 if 0 else 3 else 4 }}
""".strip("\n")


# What Jinja2 renders and this project does not: no template means it. What the refusal says.
REFUSED = {"{{ d.items }}": "the text of a method", "{{ s.__class__ }}": "\"__class__\" is not allowed", "{{ namespace }}": "the text of a function",
           "a {# b": "a comment that does not end", "{{ '%s' % s }}": "formatting", "{{ s|title }}": "the filter \"title\"", "{{ s.title() }}": "\"title\"",
           "{{ s is upper }}": "the test \"upper\"", "\n{% filter upper %}a{% endfilter %}": "line 2: the statement \"filter\"",
           "{% include 'a' %}": "\"include\"", "{{ ('a'|safe) + 'b' }}": "safe", "{{ 2 ** 64 }}": "64 bits", "{{ 99999999999999999999 }}": "not supported",
           "{% call greet() %}{% endcall %}": "\"call\"", "{{ dict(*l) }}": "with *", "{% for x in l recursive %}{% endfor %}": "recursive",
           "{% for x in l %}{% macro a() %}{% endmacro %}{% endfor %}": "a macro inside", "{{ strftime_now('%Y') }}": "strftime_now"}


def snippets():
    """One line each, but for those that belong together: a line that ends inside of a tag or block goes on."""
    lines = SNIPPETS.split("\n")
    whole = []
    start = 0
    while start < len(lines):
        end = start + 1
        while end < len(lines) and end - start < 4 and isinstance(reference("\n".join(lines[start:end]), VARIABLES),
                                                                  jinja2.TemplateSyntaxError) and not isinstance(
                reference("\n".join(lines[start:end + 1]), VARIABLES), jinja2.TemplateSyntaxError):
            end += 1
        whole.append("\n".join(lines[start:end]))
        start = end
    whole += ["\n".join(lines[i:i + 3]) for i in range(len(lines) - 3)]
    return whole + [line + "\n" for line in lines] + ["{#\nlines #}\n c", "a {#-\nb\n+#}\n c", "a\n\n", "a\r\nb\rc\n", "", "\n", "{{ n }}\n{{ n }}\n\n", "{% set x %}\n  a\n{% endset %}\n[{{ x }}]"]


def main():
    dice = random.Random(SEED)
    print(f"seed {SEED}")
    requests = list(conversations(dice))
    with tempfile.TemporaryDirectory() as scratch:
        (pathlib.Path(scratch) / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
        answers = ask(["render", scratch], requests)
        config = {"chat_template": TEMPLATE, "eos_token": "<|im_end|>"}
        (pathlib.Path(scratch) / "chat_template.jinja").unlink()
        (pathlib.Path(scratch) / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        assert ask(["render", scratch], requests) == answers
    texts = [reference(TEMPLATE, request) for request in requests]
    rendered = sum(not isinstance(text, Exception) for text in texts)
    print(f"{len(requests)} conversations, {rendered} rendered, {len(requests) - rendered} refused")
    assert rendered > 100 and len(requests) - rendered > 20
    for request, answer, theirs in zip(requests, answers, texts):
        compare(answer, theirs, json.dumps(request))
    assert texts[1].endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    sources = snippets()
    answers = ask(["templates"], [{"template": source, "variables": VARIABLES} for source in sources])
    failures = []
    good = 0
    for source, answer in zip(sources, answers):
        theirs = reference(source, VARIABLES)
        good += not isinstance(theirs, Exception)
        try:
            compare(answer, theirs, repr(source))
        except AssertionError as failure:
            failures.append(str(failure))
    print(f"{len(sources)} templates, {good} rendered")
    assert good > 150
    answers = ask(["templates"], [{"template": source, "variables": VARIABLES} for source in REFUSED])
    for (source, reason), answer in zip(REFUSED.items(), answers):
        assert reason in answer.get("error", ""), f"{source}: {answer}, expected {reason}"
    assert not failures, "\n\n".join(failures)


if __name__ == "__main__":
    main()
