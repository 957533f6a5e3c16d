"use strict";
(function () {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const coarse = window.matchMedia("(pointer: coarse)");

  // "var:ink" becomes what the style sheet calls --ink now.
  function filled(value, styles) {
    if (typeof value === "string" && value.startsWith("var:")) return styles.getPropertyValue("--" + value.slice(4)).trim();
    if (Array.isArray(value)) return value.map((one) => filled(one, styles));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, filled(one, styles)]));
    }
    return value;
  }

  function axis(own) {
    return { automargin: true, gridcolor: "var:line", linecolor: "var:line", zerolinecolor: "var:soft", ticklabeloverflow: "allow", ...own };
  }

  function layoutOf(own) {
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: "var:ink", size: 13, family: "system-ui, sans-serif" },
      margin: { l: 8, r: 12, t: 12, b: 8 }, showlegend: false, bargap: 0.25, hovermode: "closest",
      dragmode: coarse.matches ? false : "zoom", ...own, showlegend: Boolean(own.legend), xaxis: axis(own.xaxis), yaxis: axis(own.yaxis),
    };
  }

  function draw() {
    const styles = getComputedStyle(document.documentElement);
    for (const figure of figures) {
      const place = document.getElementById("plot-" + figure.name);
      place.style.height = figure.layout.height + "px";
      Plotly.react(place, filled(figure.data, styles), filled(layoutOf(figure.layout), styles), { responsive: true, displayModeBar: false });
    }
  }

  draw();
  dark.addEventListener("change", draw);
})();
