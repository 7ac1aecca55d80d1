"use strict";
const cluster = document.getElementById("cluster");
const dialog = document.getElementById("more");
const says = document.getElementById("says");
const filter = document.getElementById("filter");
const onCluster = location.pathname === "/";

async function refresh() {
  try {
    const answer = await fetch(onCluster ? "/cluster" + location.search : location.pathname + "?part");
    if (answer.ok) {
      // What is open stays open, and who moves by keyboard stays where he is.
      const open = new Set([...cluster.querySelectorAll("details[open]")].map((group) => group.dataset.key));
      const focused = document.activeElement?.getAttribute("href");
      cluster.innerHTML = await answer.text();
      for (const group of cluster.querySelectorAll("details")) group.open = open.has(group.dataset.key);
      if (focused) cluster.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    }
  } catch {
    // The exporter is away: what is shown says when it was seen.
  }
}

async function show(url) {
  says.textContent = "…";
  if (!dialog.open) dialog.showModal();
  try {
    const answer = await fetch(url);
    const text = await answer.text();
    if (!answer.ok) {
      says.replaceChildren(Object.assign(document.createElement("pre"), { textContent: text }));
    } else {
      says.innerHTML = text;
    }
  } catch (error) {
    says.textContent = `The exporter does not answer: ${error}`;
  }
}

document.addEventListener("click", async (event) => {
  const link = event.target.closest("a[data-job], a[href^='/nodes/']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (link.dataset.job) {
    await show(`/jobs/${link.dataset.job}?part`);
  } else {
    await show(`${link.pathname}?part`);
    if (link.dataset.gpu) {
      const gpu = says.querySelector(`[id="gpu-${link.dataset.gpu}"]`);
      gpu?.classList.add("chosen");
      gpu?.scrollIntoView({ block: "center" });
    }
  }
});

function choose(event) {
  event.preventDefault();
  const said = [...new FormData(filter)].filter(([, value]) => value !== "");
  const query = new URLSearchParams(said).toString();
  history.replaceState(null, "", query ? `/?${query}` : "/");
  refresh();
}

if (onCluster) {
  filter?.addEventListener("submit", choose);
  filter?.addEventListener("change", choose);
}
document.getElementById("close").addEventListener("click", () => dialog.close());
// A name in it may be one on the page, too.
dialog.addEventListener("close", () => says.replaceChildren());
setInterval(refresh, 1000 * Number(document.body.dataset.every));
