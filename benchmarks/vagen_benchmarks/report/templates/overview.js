"use strict";
const search = document.querySelector("input"), runs = [...document.querySelectorAll("section")];
const show = () => {
  const words = search.value.toLowerCase();
  for (const run of runs) run.hidden = !run.textContent.toLowerCase().includes(words);
  history.replaceState(null, "", "#" + encodeURIComponent(search.value));
};
search.value = decodeURIComponent(location.hash.slice(1));
search.addEventListener("input", show);
show();
