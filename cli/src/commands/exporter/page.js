"use strict";
const cluster = document.getElementById("cluster");
const dialog = document.getElementById("job");
const says = document.getElementById("says");

async function refresh() {
  try {
    const answer = await fetch("/cluster");
    if (answer.ok) {
      // Who moves by keyboard stays where he is.
      const focused = document.activeElement?.getAttribute("href");
      cluster.innerHTML = await answer.text();
      if (focused) document.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    }
  } catch {
    // The exporter is away: what is shown says when it was seen.
  }
}

document.addEventListener("click", async (event) => {
  const link = event.target.closest("a[data-job]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  says.textContent = "…";
  dialog.showModal();
  try {
    const answer = await fetch(link.getAttribute("href"));
    says.textContent = await answer.text();
  } catch (error) {
    says.textContent = `The exporter does not answer: ${error}`;
  }
});

document.getElementById("close").addEventListener("click", () => dialog.close());
setInterval(refresh, 1000 * Number(document.body.dataset.every));
