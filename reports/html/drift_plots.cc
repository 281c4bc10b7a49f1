#include "reports/html/drift_plots.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "reports/html/svg.h"

namespace qgpu {
namespace {

constexpr int kWidth = 340, kHeight = 210;
constexpr double kLeft = 44, kRight = kWidth - 8, kTop = 8, kBottom = kHeight - 34;
constexpr double kZeroStrip = 28;  // the line for 0, beside the logarithmic axis
constexpr int kDecadeTicks = 6;

std::string MoveTo(double x, double y) { return fmt::format("M{} {}", Coordinate(x), Coordinate(y)); }

// Vertical and horizontal steps of a dot or a column, relative to MoveTo.
std::string Dot(double x, double y) { return MoveTo(x, y) + "h0"; }

void DrawXTicks(Svg& svg, const std::vector<Tick>& ticks, double top) {
  for (const Tick& tick : ticks) {
    svg.Line("grid", tick.at, top, tick.at, kBottom);
    svg.Line("axis", tick.at, kBottom, tick.at, kBottom + 4);
    svg.Text(tick.at, kBottom + 16, "middle", tick.label);
  }
}

void DrawYTicks(Svg& svg, const std::vector<Tick>& ticks, double left) {
  for (const Tick& tick : ticks) {
    svg.Line("grid", left, tick.at, kRight, tick.at);
    svg.Text(kLeft - 5, tick.at + 4, "end", tick.label);
  }
}

// One dot a position.
void DrawDots(Svg& svg, const TextDrift& text, const LinearAxis& x, const LogAxis& y, double zero_y) {
  std::string dots;
  for (size_t i = 0; i < text.rows.size(); ++i) {
    const double kl = text.rows[i].kl;
    dots += Dot(x.At(static_cast<double>(i)), kl > 0 ? y.At(kl) : zero_y);
  }
  svg.Path("dots", dots);
}

// One column for several positions, from the lowest positive to the highest KL, and a mark on the line for 0.
void DrawColumns(Svg& svg, const TextDrift& text, const LinearAxis& x, const LogAxis& y, double zero_y) {
  const int64_t count = std::ssize(text.rows);
  const double width = (x.At(static_cast<double>(count)) - x.At(0)) / static_cast<double>(kColumns) + 0.1;
  std::string columns;
  for (int64_t column = 0; column < kColumns; ++column) {
    const int64_t begin = column * count / kColumns, end = (column + 1) * count / kColumns;
    double least = 0, most = 0;
    bool has_zero = false;
    for (int64_t i = begin; i < end; ++i) {
      const double kl = text.rows[static_cast<size_t>(i)].kl;
      has_zero |= kl <= 0;
      if (kl <= 0) continue;
      least = least == 0 ? kl : std::min(least, kl);
      most = std::max(most, kl);
    }
    const double middle = x.At(static_cast<double>(begin + end - 1) / 2);
    // A single value is a dash of a unit's height.
    if (most > 0) columns += fmt::format("{}V{}", MoveTo(middle, y.At(least) + 0.5), Coordinate(y.At(most) - 0.5));
    if (has_zero) columns += fmt::format("{}V{}", MoveTo(middle, zero_y + 1.5), Coordinate(zero_y - 1.5));
  }
  svg.Path("columns", columns, width);
}

// A share of the positions and the KL that it does not exceed.
struct Step {
  double kl, share;
};

// Every value, or evenly spaced ranks and the highest ones.
std::vector<Step> Steps(const TextDrift& text) {
  std::vector<double> sorted;
  for (const RowDrift& row : text.rows) sorted.push_back(row.kl);
  std::sort(sorted.begin(), sorted.end());
  const int64_t count = std::ssize(sorted);
  constexpr int64_t kHighest = 20;
  const int64_t every = count <= kMostDots ? 1 : (count + kColumns - 1) / kColumns;
  std::vector<Step> steps;
  for (int64_t i = 0; i < count; ++i) {
    if (i % every != 0 && i < count - kHighest && !(sorted[static_cast<size_t>(i)] <= 0)) continue;
    const double kl = sorted[static_cast<size_t>(i)], share = static_cast<double>(i + 1) / static_cast<double>(count);
    if (!steps.empty() && (steps.back().kl == kl || (steps.back().kl <= 0 && kl <= 0))) {
      steps.back().share = share;  // the last of equal ones, and of all that are not positive
    } else {
      steps.push_back({kl, share});
    }
  }
  return steps;
}

void DrawDistribution(Svg& svg, const char* css_class, const TextDrift& text, const LogAxis& x, const LinearAxis& y,
                      double zero_x) {
  if (text.rows.empty()) return;
  std::string path = MoveTo(zero_x, y.At(0));
  double end = zero_x;
  for (const Step& step : Steps(text)) {
    end = step.kl > 0 ? x.At(step.kl) : zero_x;
    path += fmt::format("H{}V{}", Coordinate(end), Coordinate(y.At(100 * step.share)));
  }
  path += fmt::format("H{}", Coordinate(kRight));
  svg.Path(css_class, path);
}

}  // namespace

void PlotScale::Include(const TextDrift& text) {
  for (const RowDrift& row : text.rows) {
    has_zero |= row.kl <= 0;
    has_negative |= row.kl < 0;
    if (row.kl <= 0) continue;
    least = least == 0 ? row.kl : std::min(least, row.kl);
    most = std::max(most, row.kl);
  }
}

std::string PositionPlot(const TextDrift& text, double mean, double noise_mean, const PlotScale& scale) {
  Svg svg(kWidth, kHeight, "KL by position of " + text.name);
  const double log_bottom = scale.has_zero ? kBottom - kZeroStrip : kBottom - 4, zero_y = kBottom - 9;
  const LinearAxis x(0, static_cast<double>(std::max<int64_t>(std::ssize(text.rows) - 1, 1)), kLeft + 4, kRight - 4);
  const LogAxis y(scale.least, scale.most, log_bottom, kTop);
  DrawXTicks(svg, x.Ticks(5), kTop);
  DrawYTicks(svg, y.Ticks(kDecadeTicks), kLeft);
  if (scale.has_zero) DrawYTicks(svg, {{zero_y, scale.ZeroLabel()}}, kLeft);
  svg.Line("axis", kLeft, kBottom, kRight, kBottom);
  svg.Text((kLeft + kRight) / 2, kHeight - 4, "middle", "position in the text");
  if (std::ssize(text.rows) <= kMostDots) {
    DrawDots(svg, text, x, y, zero_y);
  } else {
    DrawColumns(svg, text, x, y, zero_y);
  }
  if (y.Has(mean)) svg.Line("mean", kLeft, y.At(mean), kRight, y.At(mean));
  if (y.Has(noise_mean)) svg.Line("noise", kLeft, y.At(noise_mean), kRight, y.At(noise_mean));
  return svg.Finish();
}

std::string DistributionPlot(const TextDrift& drift, const TextDrift& noise, const PlotScale& scale) {
  Svg svg(kWidth, kHeight, "distribution of KL over the positions of " + drift.name);
  const double zero_x = kLeft + 8, log_left = scale.has_zero ? kLeft + kZeroStrip + 10 : kLeft + 4;
  const LogAxis x(scale.least, scale.most, log_left, kRight - 14);
  const LinearAxis y(0, 100, kBottom, kTop + 4);
  DrawXTicks(svg, x.Ticks(kDecadeTicks - 1), kTop);
  if (scale.has_zero) DrawXTicks(svg, {{zero_x, scale.ZeroLabel()}}, kTop);
  std::vector<Tick> shares = y.Ticks(5);
  for (Tick& tick : shares) tick.label += "%";
  DrawYTicks(svg, shares, kLeft);
  svg.Line("axis", kLeft, kBottom, kRight, kBottom);
  svg.Text((kLeft + kRight) / 2, kHeight - 4, "middle", "KL, nats");
  DrawDistribution(svg, "drift", drift, x, y, scale.has_zero ? zero_x : kLeft);
  DrawDistribution(svg, "noise", noise, x, y, scale.has_zero ? zero_x : kLeft);
  return svg.Finish();
}

}  // namespace qgpu
