"""How every page looks: plain text, put into each; a page of its own kind adds what it needs."""

STYLE = """
:root { color-scheme: light dark;
  --paper: #fff; --ink: #1c2126; --soft: #5b6570; --line: #dbe0e5; --wash: #f4f6f8;
  --right: 32 98 172; --wrong: 189 62 38; --depth: .7; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14181c; --ink: #e4e8ec; --soft: #98a3ae; --line: #2d343b; --wash: #1c2227;
  --right: 116 176 245; --wrong: 243 136 108; --depth: .5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 62rem; font: 16px/1.5 system-ui, sans-serif;
  background: var(--paper); color: var(--ink); }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--line); }
p { margin: .4rem 0; max-width: 46rem; }
a { color: rgb(var(--right)); }
.soft, th { color: var(--soft); font-weight: normal; }
.number, td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .95rem; }
th { text-align: left; font-size: .85rem; }
thead th { white-space: nowrap; }
th, td { padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: baseline; }
tbody th { color: var(--ink); font-size: .95rem; overflow-wrap: anywhere; min-width: 7rem; }
tr.whole > * { font-weight: 600; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; }
.mark { border: 1px solid rgb(var(--wrong)); border-radius: 3px; color: rgb(var(--wrong)); font-size: .7em;
  padding: 0 .2em; unicode-bidi: isolate; direction: ltr; }
details > summary { cursor: pointer; }
details[open] > summary > .text { display: none; }
"""

# What sections of words, findings, tables and charts need beyond it.
CONTENT_STYLE = """
header p { font-size: 1.05rem; }
section p { overflow-wrap: anywhere; }
code { font: .9em/1.5 ui-monospace, monospace; background: var(--wash); border-radius: 3px;
  padding: .1em .3em; }
pre { overflow-x: auto; background: var(--wash); border: 1px solid var(--line); border-radius: 6px;
  padding: .6rem .8rem; }
pre code { background: none; padding: 0; }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; list-style: none; padding: 0; margin: 1rem 0 0; }
.wide { margin: .9rem 0 .4rem; }
.wide:focus-visible, th button:focus-visible { outline: 2px solid rgb(var(--right)); outline-offset: 2px; }
.sortable { min-width: 50%; }
.sortable td, .sortable th { padding-right: 1.1rem; }
.sortable td:last-child, .sortable th:last-child { padding-right: .2rem; }
.sortable th:first-child { position: sticky; left: 0; min-width: 9rem; background: var(--paper); }
.sortable tbody tr:hover > * { background: var(--wash); }
th button { all: unset; cursor: pointer; }
th button::after { content: "↕"; display: inline-block; width: 1.2em; text-align: center; opacity: .45; }
th[aria-sort=ascending] button::after { content: "▲"; opacity: 1; }
th[aria-sort=descending] button::after { content: "▼"; opacity: 1; }
th[aria-sort] button { color: var(--ink); }
.hints { font-size: .85rem; color: var(--soft); margin: .3rem 0 .6rem; }
.hints dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: .3rem 0; }
.hints dd { margin: 0; }
.note { font-size: .9rem; color: var(--soft); }
.findings { list-style: none; padding: 0; margin: .9rem 0; display: grid; gap: .6rem; }
.finding { display: grid; grid-template-columns: 9.5rem 1fr; gap: 0 1rem; border: 1px solid var(--line);
  border-left: .35rem solid var(--soft); border-radius: 6px; padding: .6rem .9rem; }
.finding.agrees { border-left-color: rgb(var(--right)); }
.finding.disagrees { border-left: .35rem double rgb(var(--wrong)); }
.finding.cannot-tell { border-left-style: dashed; } .finding.not-asked { border-left-style: dotted; }
.finding p { margin: 0; } .finding > div { min-width: 0; overflow-wrap: anywhere; }
.verdict { font-weight: 600; white-space: nowrap; }
.verdict svg { width: 1.1em; height: 1.1em; vertical-align: -.18em; margin-right: .45em; }
.agrees .verdict { color: rgb(var(--right)); } .disagrees .verdict { color: rgb(var(--wrong)); }
.finding dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 .8rem; margin: .25rem 0 0;
  font-size: .95rem; }
.finding dt { color: var(--soft); } .finding dd { margin: 0; }
figure { margin: 1.4rem 0; max-width: 43rem; }
figcaption { font-weight: 600; margin-bottom: .4rem; overflow-wrap: anywhere; }
figure p { font-size: .9rem; color: var(--soft); }
.picture { background: #fff; border: 1px solid var(--line); border-radius: 6px; padding: .5rem;
  overflow-x: auto; }
.picture svg { display: block; width: 100%; min-width: 18rem; height: auto; }
@media (max-width: 34rem) {
  .finding { grid-template-columns: 1fr; }
  .finding dl, .hints dl { grid-template-columns: 1fr; }
  .finding dd { margin-bottom: .3rem; }
}
@media print { th button::after { display: none; } figure, .finding, tr { break-inside: avoid; } }
"""
