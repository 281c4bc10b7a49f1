#include "model/netlist/adder.h"

#include <algorithm>
#include <map>

namespace qgpu {
namespace {

int GroupSize(int group) { return std::min(kAdderGroupBits, 32 - group * kAdderGroupBits); }

Linear PartialSum(const std::vector<Signal>& a, const std::vector<Signal>& b, bool subtract, int first, int last) {
  Linear sum;
  for (int i = first; i <= last; ++i) {
    const double weight = 1 << (i - first);
    sum += weight * Linear(a[i]);
    sum += weight * (subtract ? Not(b[i]) : Linear(b[i]));
  }
  return sum;
}

}  // namespace

AdderSignals MakeAdderSignals(Netlist& net, const std::string& name, bool compares, const std::vector<Signal>& pool) {
  AdderSignals adder;
  size_t used = 0;
  const auto place = [&](const std::string& what) { return pool.empty() ? net.Bit(name + what) : pool[used++]; };
  adder.sum = net.Bits(name + ".sum", 32);
  adder.flip.resize(32);
  adder.generate.resize(kAdderGroups);
  adder.propagate.resize(kAdderGroups);
  for (int group = 0; group < kAdderGroups; ++group) {
    if (group < 6 || compares) adder.generate[group] = net.Bit(fmt::format("{}.generate[{}]", name, group));
    if (group >= 1 && group < 6) adder.propagate[group] = place(fmt::format(".propagate[{}]", group));
    if (group == 6 && compares) adder.propagate[group] = net.Bit(name + ".propagate[6]");
    for (int j = 1; j < GroupSize(group) && group >= 1; ++j) {
      const int bit = group * kAdderGroupBits + j;
      adder.flip[bit] = place(fmt::format(".flip[{}]", bit));
    }
  }
  if (compares) adder.zero_group = net.Bit(name + ".equal[0]");
  return adder;
}

void AdderLayer1(Netlist& net, int layer, const Literals& enable, const std::vector<Signal>& a,
                 const std::vector<Signal>& b, bool subtract, const AdderSignals& adder) {
  for (int group = 0; group < kAdderGroups; ++group) {
    const int first = group * kAdderGroupBits, size = GroupSize(group);
    for (int j = 0; j < size; ++j) {
      Linear sum = PartialSum(a, b, subtract, first, first + j);
      if (subtract && group == 0) sum += 1.0;
      const int largest = (1 << (j + 2)) - 2 + (subtract && group == 0);
      std::map<int, std::vector<Output>> outputs;  // by threshold
      const Signal bit = adder.sum[first + j];
      outputs[1 << j].push_back({bit, 1});
      outputs[2 << j].push_back({bit, -1});
      outputs[3 << j].push_back({bit, 1});
      const auto equals = [&](int value, Signal target) {
        outputs[value].push_back({target, 1});
        outputs[value + 1].push_back({target, -1});
      };
      if (j + 1 < size && group >= 1) equals((2 << j) - 1, adder.flip[first + j + 1]);
      if (j + 1 == size && group < 6) {
        outputs[2 << j].push_back({adder.generate[group], 1});
        if (group >= 1) equals((2 << j) - 1, adder.propagate[group]);
        if (group == 0 && subtract && adder.zero_group.id >= 0) equals(2 << j, adder.zero_group);
      }
      for (const auto& [threshold, targets] : outputs) {
        if (threshold <= largest) net.Step(layer, enable, sum - Linear(threshold - 1), targets);
      }
    }
  }
}

void AdderTopGroup(Netlist& net, int layer, const Literals& enable, const std::vector<Signal>& a,
                   const std::vector<Signal>& b, bool is_signed, const AdderSignals& adder) {
  Linear sum = Linear(a[30]) + Not(b[30]);
  sum += 2.0 * (is_signed ? Not(a[31]) : Linear(a[31]));
  sum += 2.0 * (is_signed ? Linear(b[31]) : Not(b[31]));
  net.Step(layer, enable, sum - 2.0, {{adder.propagate[6], 1}});
  net.Step(layer, enable, sum - 3.0, {{adder.generate[6], 1}, {adder.propagate[6], -1}});
}

std::vector<Literals> CarryTerms(const AdderSignals& adder, int group) {
  std::vector<Literals> terms;
  for (int source = 0; source < group; ++source) {
    Literals term = {adder.generate[source]};
    for (int between = source + 1; between < group; ++between) term.push_back(adder.propagate[between]);
    terms.push_back(term);
  }
  return terms;
}

void AdderLayer2(Netlist& net, int layer, const AdderSignals& adder, const std::vector<Signal>& total) {
  for (int group = 1; group < kAdderGroups; ++group) {
    for (const Literals& carry : CarryTerms(adder, group)) {
      for (int j = 0; j < GroupSize(group); ++j) {
        const int bit = group * kAdderGroupBits + j;
        Literals literals = carry;
        if (j > 0) literals.push_back(adder.flip[bit]);
        net.Flip(layer, literals, adder.sum[bit], total[bit]);
      }
    }
  }
}

}  // namespace qgpu
