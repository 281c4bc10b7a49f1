// Small plots as inline SVG: no scripts, no colours of their own (classes of the page's style sheet). Units are those
// of the viewBox; y grows downward.
#pragma once

#include <string>
#include <vector>

namespace qgpu {

struct Tick {
  double at = 0;  // in the plot's units
  std::string label;
};

// A straight line from values to places.
class LinearAxis {
 public:
  // `low` < `high` lie at `from` and `to`.
  LinearAxis(double low, double high, double from, double to) : low_(low), high_(high), from_(from), to_(to) {}
  double At(double value) const { return from_ + (value - low_) / (high_ - low_) * (to_ - from_); }
  // At multiples of 1, 2 or 5 times a power of ten, at most `most` + 1 of them; whole numbers only.
  std::vector<Tick> Ticks(int most) const;

 private:
  double low_, high_, from_, to_;
};

// The same for the logarithm of positive values, from one power of ten to another.
class LogAxis {
 public:
  // 0 < least <= most: the axis reaches to the powers of ten around them, at least one decade.
  LogAxis(double least, double most, double from, double to);
  double At(double value) const;  // value > 0
  bool Has(double value) const;   // on the axis
  std::vector<Tick> Ticks(int most) const;

 private:
  int low_decade_, high_decade_;
  double from_, to_;
};

class Svg {
 public:
  // `label` says what the picture shows to who cannot see it. HTML is escaped here.
  Svg(int width, int height, const std::string& label);
  void Line(const char* css_class, double x1, double y1, double x2, double y2);
  void Path(const char* css_class, const std::string& path, double stroke_width = 0);  // 0: the style sheet's
  void Text(double x, double y, const char* anchor, const std::string& text);          // "start", "middle", "end"
  std::string Finish() const { return body_ + "</svg>"; }

 private:
  std::string body_;
};

// Places in a path: one digit after the point.
std::string Coordinate(double value);

}  // namespace qgpu
