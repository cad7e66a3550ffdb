"""How the page looks and what it does when it is touched: plain text, put into every page."""

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
.headline { font-size: 2.6rem; line-height: 1.1; font-weight: 600; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .95rem; }
th { text-align: left; font-size: .85rem; }
thead th { white-space: nowrap; }
th, td { padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: baseline; }
tbody th { color: var(--ink); font-size: .95rem; overflow-wrap: anywhere; min-width: 7rem; }
tr.whole > * { font-weight: 600; }
.range { position: relative; display: block; width: 12rem; max-width: 30vw; height: .9rem;
  background: var(--wash); }
.range i { position: absolute; top: .3rem; height: .3rem; background: rgb(var(--right) / .45); }
.range b { position: absolute; top: 0; width: 2px; height: .9rem; background: rgb(var(--right)); }
.matrix td, .matrix th { padding: .35rem .5rem; border: 1px solid var(--paper); text-align: center; }
.matrix th[scope=row] { text-align: right; max-width: 11rem; position: sticky; left: 0;
  background: var(--paper); }
.matrix thead th { vertical-align: bottom; max-width: 9rem; overflow-wrap: break-word; white-space: normal; }
.matrix td { min-width: 4.2rem; background: var(--wash); line-height: 1.2;
  font-variant-numeric: tabular-nums; }
.matrix td small { display: block; opacity: .85; }
.matrix td.right { background: rgb(var(--right) / calc(var(--share) * var(--depth))); }
.matrix td.wrong { background: rgb(var(--wrong) / calc(var(--share) * var(--depth))); }
.matrix td a { color: inherit; display: block; text-decoration: none; }
.matrix td a:hover, .matrix td a:focus { text-decoration: underline; }
.plots { display: flex; flex-wrap: wrap; gap: 1.5rem; align-items: flex-start; }
.plots > * { flex: 1 1 18rem; }
.plots > svg { max-width: 26rem; }
svg { width: 100%; height: auto; }
svg text { fill: var(--soft); font-size: 11px; }
svg .axis { stroke: var(--line); } svg .ideal { stroke: var(--soft); stroke-dasharray: 4 4; }
svg .bar { fill: rgb(var(--right) / .55); } svg .sure { stroke: rgb(var(--wrong)); stroke-width: 2; }
svg .count { fill: var(--soft); opacity: .5; } svg .dot { fill: rgb(var(--right) / .5); }
.filters { display: flex; flex-wrap: wrap; gap: .6rem 1rem; align-items: end; margin: .8rem 0; }
.filters[hidden] { display: none; }
.filters label { font-size: .85rem; color: var(--soft); }
select, input, button { display: block; max-width: 16rem; font: inherit; color: var(--ink);
  background: var(--wash); border: 1px solid var(--line); border-radius: 4px; padding: .25rem .5rem; }
article { border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem; margin: .7rem 0; }
article[hidden] { display: none; }
article .verdict { display: flex; flex-wrap: wrap; gap: .2rem 1.5rem; margin-top: .5rem; }
article .verdict > span { min-width: 0; overflow-wrap: anywhere; }
.gold { color: rgb(var(--right)); } .given { color: rgb(var(--wrong)); }
.text { white-space: pre-wrap; overflow-wrap: anywhere; }
.part { margin: .25rem 0; } .part > .soft { font-size: .8rem; margin-right: .5rem; }
.mark { border: 1px solid rgb(var(--wrong)); border-radius: 3px; color: rgb(var(--wrong)); font-size: .7em;
  padding: 0 .2em; unicode-bidi: isolate; direction: ltr; }
details > summary { cursor: pointer; }
details[open] > summary > .text { display: none; }
@media print { .filters { display: none; } }
"""

# Without it every error is shown, and the filters are not.
SCRIPT = """
(() => {
  const filters = document.getElementById("filters");
  if (!filters) return;
  filters.hidden = false;
  const find = (name) => document.getElementById(name);
  const gold = find("gold"), given = find("given"), words = find("words"), shown = find("shown");
  const cards = [...document.querySelectorAll("#errors article")];
  const texts = cards.map((card) => card.textContent.toLowerCase());
  const update = () => {
    const wanted = words.value.toLowerCase();
    let number = 0;
    cards.forEach((card, place) => {
      const fits = (!gold || !gold.value || gold.value === card.dataset.gold)
        && (!given || !given.value || given.value === card.dataset.given) && texts[place].includes(wanted);
      card.hidden = !fits;
      number += fits;
    });
    shown.textContent = `${number} of ${cards.length} shown`;
  };
  const reset = () => { for (const box of [gold, given, words]) if (box) box.value = ""; };
  filters.addEventListener("input", update);
  find("all").addEventListener("click", () => { reset(); update(); });
  document.querySelectorAll(".matrix a").forEach((link) => link.addEventListener("click", () => {
    reset();
    gold.value = link.dataset.gold;
    given.value = link.dataset.given;
    update();
  }));
  update();
})();
"""
