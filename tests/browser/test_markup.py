"""Markdown as it is shown, and whatever else a model may write: it stays text."""

import json
import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from store.content import Text
from store.database import Database
from store.records import Session
from tests.browser import past
from tests.browser.surfing import Served, Surfer, answers, say

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def call(page: Page, module: str, function: str, *arguments: object) -> Any:
    """Call a function of one of the page's modules."""
    script = f"async args => (await import('/static/{module}.js')).{function}(...args)"
    return await page.evaluate(script, list(arguments))


async def html(page: Page, text: str) -> str:
    """What render.js makes of a text, written down."""
    script = """async text => {
        const {render} = await import("/static/render.js");
        const box = document.createElement("div");
        render(box, text);
        box.querySelectorAll("figcaption").forEach((each) => each.remove());
        return box.innerHTML;
    }"""
    found: str = await page.evaluate(script, text)
    return found.replace(' target="_blank" rel="noopener noreferrer"', "").replace(' tabindex="0"', "")


LINK = '<a href="https://example.org/">'
EXAMPLES = {
    "": "",
    "plain": "<p>plain</p>",
    "one\ntwo\n\nthree": "<p>one<br>two</p><p>three</p>",
    "# Title #\n## Sub\n#hashtag": "<h3>Title</h3><h4>Sub</h4><p>#hashtag</p>",
    "**bold** *it* _it_ ~~gone~~ ***both***": (
        "<p><strong>bold</strong> <em>it</em> <em>it</em> <del>gone</del> <strong><em>both</em></strong></p>"
    ),
    "**a *b* c** *x **y** z*": ("<p><strong>a <em>b</em> c</strong> <em>x <strong>y</strong> z</em></p>"),
    "2 * 3 * 4, snake_case_name, **open, * a *": "<p>2 * 3 * 4, snake_case_name, **open, * a *</p>",
    r"\*not\* \`this\` \\": r"<p>*not* `this` \</p>",
    "`code` ``a ` b`` `**x**` `open": "<p><code>code</code> <code>a ` b</code> <code>**x**</code> `open</p>",
    "```py\nif a < b:\n\tpass\n```\nafter": (
        '<figure class="code"><pre><code>if a &lt; b:\n\tpass</code></pre></figure><p>after</p>'
    ),
    "```\nopen\n\n# no heading": '<figure class="code"><pre><code>open\n\n# no heading</code></pre></figure>',
    "~~~\n```\n~~~": '<figure class="code"><pre><code>```</code></pre></figure>',
    "- a\n- b\n  - c\n    more\n- d": "<ul><li>a</li><li>b<ul><li>c<br>more</li></ul></li><li>d</li></ul>",
    "1. a\n2. b\n\n5) c": '<ol><li>a</li><li>b</li></ol><ol start="5"><li>c</li></ol>',
    "1. a\n  - b\n\n   text\n2. c": ("<ol><li>a<ul><li>b</li></ul><p>text</p></li><li>c</li></ol>"),
    "- a\n\n- b": "<ul><li><p>a</p></li><li><p>b</p></li></ul>",
    "- [ ] to do\n- [x] done": "<ul><li>☐ to do</li><li>☑ done</li></ul>",
    "text\n- list\n\n2026. was a year": '<p>text</p><ul><li>list</li></ul><ol start="2026"><li>was a year</li></ol>',
    "it was in\n2026. that year": "<p>it was in<br>2026. that year</p>",
    "> quoted\n> > twice\n\nnot": (
        "<blockquote><p>quoted</p><blockquote><p>twice</p></blockquote></blockquote><p>not</p>"
    ),
    "a\n\n---\n\nb": "<p>a</p><hr><p>b</p>",
    "[here](https://example.org)": f"<p>{LINK}here</a></p>",
    "[**b** `c`](https://example.org 'x') [b](https://example.org \"t\")": (
        f"<p>[<strong>b</strong> <code>c</code>]({LINK}https://example.org</a> 'x') {LINK}b</a></p>"
    ),
    "https://example.org. (see https://example.org) <https://example.org>": (
        f"<p>{LINK}https://example.org</a>. (see {LINK}https://example.org</a>) {LINK}https://example.org</a></p>"
    ),
    "https://en.wikipedia.org/wiki/A_(b)": (
        '<p><a href="https://en.wikipedia.org/wiki/A_(b)">https://en.wikipedia.org/wiki/A_(b)</a></p>'
    ),
    "[https://example.org](https://example.org)": f"<p>{LINK}https://example.org</a></p>",
    "![a picture](https://example.org)": f"<p>{LINK}a picture</a></p>",
    "[mail](mailto:a@example.org)": '<p><a href="mailto:a@example.org">mail</a></p>',
    "| a | b |\n|---|:-:|\n| 1 | `x|y` |\n| 2 |": (
        '<div class="table"><table><thead><tr><th class="left">a</th><th class="center">b</th></tr></thead><tbody>'
        '<tr><td class="left">1</td><td class="center"><code>x|y</code></td></tr>'
        '<tr><td class="left">2</td><td class="center"></td></tr></tbody></table></div>'
    ),
    "a | b\nno table": "<p>a | b<br>no table</p>",
    "windows\r\nlines\r": "<p>windows<br>lines</p>",
}

#: Each would run, load or open something if it were taken for more than text.
ATTACKS = [
    "<script>alert('canary')</script>",
    "<img src=x onerror=\"alert('canary')\">",
    "<svg onload=\"alert('canary')\"></svg>",
    "<iframe src=\"javascript:alert('canary')\"></iframe>",
    "<a href=\"javascript:alert('canary')\">click</a>",
    "[click](javascript:alert('canary'))",
    "[click](JaVaScRiPt:alert('canary'))",
    "[click](&#106;avascript:alert('canary'))",
    "[click](java\tscript:alert('canary'))",
    "[click](\x01javascript:alert('canary'))",
    "[click](data:text/html,<script>alert('canary')</script>)",
    "[click](vbscript:msgbox('canary'))",
    "[click](//example.org/canary)",
    "[click](/api/sessions)",
    "[click](file:///etc/passwd)",
    "![x](http://example.org/canary.png)",
    "<javascript:alert('canary')>",
    "[x](https://example.org/\"onmouseover=\"alert('canary'))",
    "```html\"><script>alert('canary')</script>\n<b>x</b>\n```",
    "`<script>alert('canary')</script>`",
    "| <script>alert('canary')</script> |\n|---|\n| <img src=x onerror=alert('canary')> |",
    "# <style>@import 'http://example.org/canary.css'</style>",
    "<form action=http://example.org><input name=canary></form>",
    "<meta http-equiv=refresh content='0; url=http://example.org/canary'>",
    "{{constructor.constructor('alert(1)')()}} ${alert('canary')}",
]


async def test_examples(surfer: Surfer) -> None:
    page = await surfer.enter()
    found = {text: await html(page, text) for text in EXAMPLES}
    assert found == EXAMPLES


async def test_only_some_addresses_can_be_followed(surfer: Surfer) -> None:
    page = await surfer.enter()
    good = ["https://example.org/", "http://example.org/?a=b#c", "mailto:a@example.org"]
    for href in good:
        assert await call(page, "inline", "safeHref", href) == href
    for href in ("javascript:alert(1)", " javascript:alert(1)", "data:text/html,x", "blob:x", "/x", "//x", "", "x"):
        assert await call(page, "inline", "safeHref", href) is None


async def test_no_text_takes_long(surfer: Surfer) -> None:
    """Forty thousand of them, in one line and in many: a parser that looks back again and again never ends here."""
    page = await surfer.enter()
    units = [
        "*",
        "_",
        "**a",
        "[",
        "](",
        "![",
        "`",
        "``a`",
        "<",
        "> ",
        "- ",
        "|",
        "#",
        "~~",
        "\\",
        "(",
        "http://",
        "* _ ",
    ]
    script = """async text => {
        const {blocks} = await import("/static/markdown.js");
        const {inline} = await import("/static/inline.js");
        return [blocks(text).length > 0, inline(text).length > 0];
    }"""
    for unit in units:
        for text in (unit * 40_000, f"{unit}\n" * 20_000, f"a {unit} " * 20_000, f"[{unit}](" * 10_000):
            assert await page.evaluate(script, text) == [True, True]


async def test_a_growing_text_keeps_its_blocks(surfer: Surfer) -> None:
    page = await surfer.enter()
    kept = await page.evaluate("""async () => {
        const {render} = await import("/static/render.js");
        const box = document.createElement("div");
        const whole = "# One\\n\\ntwo **three**\\n\\n```js\\nlet a;\\nlet b;\\n```\\n\\n- x\\n- y\\n\\nend";
        const seen = [];
        for (let end = 1; end <= whole.length; end += 1) {
            render(box, whole.slice(0, end));
            seen.push([...box.children]);
        }
        const fresh = document.createElement("div");
        render(fresh, whole);
        // Once a block stands, it is the same element ever after; a code block from its first line on.
        const last = seen.at(-1);
        const code = last.findIndex((node) => node.tagName === "FIGURE");
        const since = (place) => seen.findIndex((nodes) => nodes[place] === last[place]);
        const after = (words) => whole.indexOf(words);
        return {
            same: box.innerHTML === fresh.innerHTML,
            heading: since(0) <= after("two"),
            paragraph: since(1) <= after("```js"),
            code: since(code) <= after("let a") + 1,
            list: since(3) <= after("end"),
            shrinks: (render(box, "just this"), box.children.length),
        };
    }""")
    assert kept == {"same": True, "heading": True, "paragraph": True, "code": True, "list": True, "shrinks": 1}


@pytest.mark.req("CARD-28")
async def test_what_a_model_writes_never_runs(surfer: Surfer, daemon: Served) -> None:
    page = await surfer.enter()
    text = "\n\n".join(["Harmless", *ATTACKS])
    await page.evaluate("() => { window.alert = () => { throw new Error('canary') } }")
    await say(page, text)
    answer = answers(page)
    await expect(answer).to_contain_text("Harmless")
    await expect(answer).to_contain_text("<script>alert('canary')</script>")
    tags = await answer.evaluate("node => [...new Set([...node.querySelectorAll('*')].map(each => each.tagName))]")
    allowed = {"P", "BR", "A", "CODE", "PRE", "FIGURE", "FIGCAPTION", "SPAN", "BUTTON", "svg", "path"}
    assert set(tags) <= allowed | {"DIV", "TABLE", "THEAD", "TBODY", "TR", "TH", "TD", "H3", "H4"}
    links = await answer.evaluate("node => [...node.querySelectorAll('a')].map(a => [a.protocol, a.rel, a.target])")
    assert links
    assert all(link == ["http:", "noopener noreferrer", "_blank"] or link[0] == "https:" for link in links)
    names = await page.evaluate("[...document.querySelectorAll('*')].flatMap(each => each.getAttributeNames())")
    assert [name for name in names if name.startswith("on")] == []
    # The same once more from the store, in every place that shows a text.
    await page.reload()
    await expect(answer).to_contain_text("Harmless")
    await expect(page.locator(".bubble")).to_have_text(text)


async def test_attacks_from_tools_plans_titles_and_errors(surfer: Surfer, daemon: Served) -> None:
    attack = "<img src=x onerror=alert('canary')>"

    def work(db: Database) -> Session:
        session = past.begin(db, "attacks")
        past.turn(
            db,
            session,
            attack,
            past.plan((attack, attack)),
            past.tool(attack, attack, **{attack: attack}),
            Text(attack, partial=False),
            model=attack,
        )
        return past.titled(db, session, attack)

    session = past.remember(daemon, work)
    page = await surfer.enter(f"#/{session}")
    await expect(page.locator("#title")).to_have_text(attack)
    await expect(page.locator("#sessions .name")).to_have_text(attack)
    for summary in await page.locator("summary").all():
        await summary.click()
    await expect(page.locator(".row.plan li")).to_have_text(attack)
    await expect(page.locator(".row.tool pre").first).to_have_text(json.dumps({attack: attack}, indent=2))
    await page.get_by_role("button", name="Details").click()
    await expect(page.locator(".details dd").nth(1)).to_have_text(attack)
    assert await page.locator("main img[onerror], nav img[onerror]").count() == 0


async def test_the_policy_stops_what_the_code_would_not(surfer: Surfer) -> None:
    """Were an attack to get into the document after all, the browser refuses to run it."""
    page = await surfer.enter()
    surfer.expected.append(re.compile("Content Security Policy"))
    await page.evaluate("""() => {
        window.ran = [];
        const script = document.createElement("script");
        script.textContent = "window.ran.push('script')";
        document.body.append(script);
        const image = document.createElement("img");
        image.setAttribute("onerror", "window.ran.push('handler')");
        image.src = "data:,";
        document.body.append(image);
    }""")
    refused = await page.evaluate("fetch('http://example.org/canary').then(() => 'sent', () => 'refused')")
    assert refused == "refused"
    assert await page.evaluate("window.ran") == []


async def test_copying_code(surfer: Surfer) -> None:
    page = await surfer.enter()
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await say(page, "look:\n```sh\necho <hello>\n\tmake\n```")
    await page.locator("figure").get_by_role("button", name="Copy").click()
    await expect(page.locator("figure").get_by_role("button")).to_have_text("Copied")
    assert await page.evaluate("navigator.clipboard.readText()") == "echo <hello>\n\tmake"


async def test_the_parser_of_events(surfer: Surfer) -> None:
    """However the network cuts them."""
    page = await surfer.enter()
    text = ': hello\n\nevent: message\ndata: {"a": 1}\n\nevent: turn\ndata: {}\nid: 42\n\n: still here\n\ndata: 3'
    script = """async (text) => {
        const {parser} = await import("/static/stream.js");
        const results = new Set();
        for (let size = 1; size <= text.length; size += 1) {
            const parse = parser();
            const found = [];
            for (let at = 0; at < text.length; at += size) found.push(...parse(text.slice(at, at + size)));
            results.add(JSON.stringify(found));
        }
        return [...results].map((each) => JSON.parse(each));
    }"""
    events = await page.evaluate(script, text)
    assert events == [[{"name": "message", "data": {"a": 1}}, {"name": "turn", "data": {}, "id": "42"}]]


async def test_ids_without_a_secure_context(surfer: Surfer) -> None:
    page = await surfer.enter()
    ids = await page.evaluate("""async () => {
        const {newId} = await import("/static/storage.js");
        const made = [newId()];
        Object.defineProperty(crypto, "randomUUID", {value: undefined});
        return [...made, newId(), newId()];
    }""")
    assert len(set(ids)) == 3
    assert all(re.fullmatch(r"[0-9a-f-]{32,36}", each) for each in ids)
