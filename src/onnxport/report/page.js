"use strict";
(() => {
  const graph = document.getElementById("graph");

  // A link to a node opens the modules that it is in.
  const reveal = () => {
    let name = location.hash.slice(1);
    try { name = decodeURIComponent(name); } catch { /* a name with a plain percent sign */ }
    const target = name && document.getElementById(name);
    if (!target) return;
    for (let above = target.parentElement; above; above = above.parentElement) {
      if (above.tagName === "DETAILS") above.open = true;
    }
    target.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", reveal);
  reveal();
  if (!graph) return;

  // Search: nodes whose operator, name, values or source line have all the words.
  const nodes = [...graph.querySelectorAll("li[data-op]")].map((node) => [node, node.textContent.toLowerCase()]);
  const folds = [...graph.querySelectorAll("details")];
  const row = document.createElement("div");
  row.className = "search";
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = "Search nodes   ( / )";
  field.setAttribute("aria-label", "Search nodes");
  const told = document.createElement("span");
  told.className = "count";
  told.setAttribute("role", "status");
  row.append(field, told);
  graph.querySelector("h2").after(row);

  const search = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const [node] of nodes) node.hidden = words.length > 0;
    for (const [node, text] of words.length ? nodes : []) {
      if (!words.every((word) => text.includes(word))) continue;
      found += 1;
      for (let above = node; above !== graph; above = above.parentElement) above.hidden = false;
    }
    for (const fold of folds) {
      const any = !words.length || fold.querySelector("li[data-op]:not([hidden])") !== null;
      fold.hidden = !any;
      if (words.length && any) fold.open = true;
    }
    told.textContent = words.length ? `${found} of ${nodes.length} nodes` : "";
  };
  field.addEventListener("input", search);
  addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== field) {
      event.preventDefault();
      field.focus();
    } else if (event.key === "Escape" && document.activeElement === field) {
      field.value = "";
      search();
    }
  });
})();
