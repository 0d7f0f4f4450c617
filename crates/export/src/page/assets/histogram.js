// Distributions, drawn by uPlot: a bar for each power of two.

/** Of the steps of an axis, the powers of ten. */
const powers = (_, steps) =>
    steps.map((step) => (step >= 1 && Number.isInteger(Math.log10(step)) ? step : null));
const short = (value) =>
    value >= 1e9
        ? `${value / 1e9} G`
        : value >= 1e6
          ? `${value / 1e6} M`
          : value >= 1e3
            ? `${value / 1e3} k`
            : String(value);

function showHistogram(of, at) {
    const place = element("div", "histogram", element("h3", "", of.title));
    const [median, high, greatest] = of.facts;
    const summary = of.count
        ? `${number(of.count)} values · median ${length(median)} · ` +
          `99 % within ${length(high)} · longest ${length(greatest)}`
        : "none in this window";
    const told = element("p", "hint", summary);
    place.append(told);
    byId("histograms").append(place);
    if (!of.count) return () => {};
    const drawing = element("div", "");
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", `${of.title}: ${summary}`);
    place.append(drawing);
    const places = of.buckets.map((_, bucket) => bucket);
    const counts = of.buckets.map(([, , n]) => n || null);
    const most = 10 ** Math.ceil(Math.log10(Math.max(...of.buckets.map(([, , n]) => n), 2)));
    let plot = null;
    // Drawn anew where colours change.
    return () => {
        if (plot) plot.destroy();
        const axis = {
            stroke: colour("soft"),
            grid: { stroke: colour("line"), width: 1 },
            ticks: { show: false },
            font: "11px system-ui, sans-serif",
        };
        const options = {
            width: Math.max(200, place.clientWidth),
            height: 190,
            legend: { show: false },
            cursor: {
                y: false,
                drag: { setScale: false, x: false, y: false },
                points: { show: false },
            },
            scales: {
                x: { time: false, range: [-0.6, places.length - 0.4] },
                y: { distr: 3, range: [0.5, most] },
            },
            axes: [
                {
                    ...axis,
                    grid: { show: false },
                    size: 28,
                    space: 54,
                    incrs: [1, 2, 4, 8, 16],
                    values: (_, ticks) =>
                        ticks.map((tick) => (of.buckets[tick] ? length(of.buckets[tick][0]) : "")),
                },
                {
                    ...axis,
                    size: 44,
                    grid: { ...axis.grid, filter: powers },
                    filter: powers,
                    values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : short(tick))),
                },
            ],
            series: [
                {},
                {
                    fill: colour(at ? "runnable" : "call"),
                    stroke: "transparent",
                    points: { show: false },
                    paths: uPlot.paths.bars({ size: [0.86], align: 0 }),
                },
            ],
            hooks: {
                setCursor: [
                    (shown) => {
                        const bucket = of.buckets[shown.cursor.idx];
                        told.textContent = bucket
                            ? `${length(bucket[0])} to ${length(bucket[1])}: ` +
                              `${number(bucket[2])} (${percent(bucket[2] / of.count)})`
                            : summary;
                    },
                ],
            },
        };
        plot = new uPlot(options, [places, counts], drawing);
    };
}

/** All of them; the result draws them anew. */
function showHistograms() {
    const draws = data.histograms.map(showHistogram);
    return () => draws.forEach((draw) => draw());
}
