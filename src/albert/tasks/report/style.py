"""How the page of an evaluation looks beyond what all pages do, and what it does when it is touched."""

STYLE = """
.headline { font-size: 2.6rem; line-height: 1.1; font-weight: 600; font-variant-numeric: tabular-nums; }
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
.part { margin: .25rem 0; } .part > .soft { font-size: .8rem; margin-right: .5rem; }
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
