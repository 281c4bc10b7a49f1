#include "reports/html/svg.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "reports/html/markup.h"

namespace qgpu {

std::string Coordinate(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::vector<Tick> LinearAxis::Ticks(int most) const {
  double step = 1;
  for (double power = 1; (high_ - low_) / step > most; power *= 10) {
    for (const double factor : {1, 2, 5}) {
      step = factor * power;
      if ((high_ - low_) / step <= most) break;
    }
  }
  std::vector<Tick> ticks;
  for (double value = std::ceil(low_ / step) * step; value <= high_; value += step) {
    ticks.push_back({At(value), WithCommas(std::llround(value))});
  }
  return ticks;
}

LogAxis::LogAxis(double least, double most, double from, double to)
    : low_decade_(static_cast<int>(std::floor(std::log10(least)))),
      high_decade_(static_cast<int>(std::ceil(std::log10(most)))),
      from_(from),
      to_(to) {
  high_decade_ = std::max(high_decade_, low_decade_ + 1);
}

double LogAxis::At(double value) const {
  return from_ + (std::log10(value) - low_decade_) / (high_decade_ - low_decade_) * (to_ - from_);
}

bool LogAxis::Has(double value) const {
  return value > 0 && std::log10(value) >= low_decade_ && std::log10(value) <= high_decade_;
}

std::vector<Tick> LogAxis::Ticks(int most) const {
  const int step = (high_decade_ - low_decade_ + most - 1) / most;
  std::vector<Tick> ticks;
  for (int decade = low_decade_; decade <= high_decade_; decade += step) {
    const double share = static_cast<double>(decade - low_decade_) / (high_decade_ - low_decade_);
    ticks.push_back({from_ + share * (to_ - from_), fmt::format("1e{}", decade)});
  }
  return ticks;
}

Svg::Svg(int width, int height, const std::string& label) {
  body_ = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">", width, height, Escape(label));
}

void Svg::Line(const char* css_class, double x1, double y1, double x2, double y2) {
  Path(css_class, fmt::format("M{} {}L{} {}", Coordinate(x1), Coordinate(y1), Coordinate(x2), Coordinate(y2)));
}

void Svg::Path(const char* css_class, const std::string& path, double stroke_width) {
  if (path.empty()) return;
  const std::string width = stroke_width > 0 ? fmt::format(" style=\"stroke-width:{}\"", Coordinate(stroke_width)) : "";
  body_ += fmt::format("<path class=\"{}\"{} d=\"{}\"></path>", css_class, width, path);
}

void Svg::Text(double x, double y, const char* anchor, const std::string& text) {
  body_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>", Coordinate(x), Coordinate(y), anchor,
                       Escape(text));
}

}  // namespace qgpu
