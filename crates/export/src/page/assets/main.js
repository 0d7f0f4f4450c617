// Puts the page together.

const timeline = showTimeline();
showAnswer(timeline.go);
showShares();
const drawHistograms = showHistograms();
showTables();
showLines(timeline.go);

function redraw() {
    timeline.redraw();
    drawHistograms();
}
redraw();
let width = innerWidth;
addEventListener("resize", () => {
    // On phones, scrolling changes the height.
    if (innerWidth === width) return;
    width = innerWidth;
    redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
requestAnimationFrame(() =>
    requestAnimationFrame(() => {
        document.documentElement.dataset.ready = String(Math.round(performance.now()));
    }),
);
