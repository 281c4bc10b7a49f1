#include "model/schedule/places.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace qgpu {
namespace {

int NextMlp(int time) { return time % 2 == 1 || time == -1 ? std::max(time, 1) : time + 1; }

// One life for each chain of updates.
std::vector<Life> CollectLives(const MachineNetlist& machine, std::vector<int>& life_of) {
  const Netlist& net = machine.netlist;
  SignalTimes use = TimesOf(net);
  for (const auto* group : {&machine.next_kind, &machine.next_payload_on, &machine.next_payload_off}) {
    for (Signal s : *group) use.last_read[s.id] = 2 * net.layers();  // they must survive
  }
  std::vector<Life> lives;
  life_of.assign(net.signals().size(), -1);
  for (size_t i = 0; i < net.signals().size(); ++i) {
    if (use.first[i] == kNever) continue;
    const int old = net.signals()[i].update_of;
    if (old < 0) {
      life_of[i] = static_cast<int>(lives.size());
      lives.push_back({static_cast<int>(i), use.first[i], -1, -1, 1, -1});
    } else {
      life_of[i] = life_of[old];
    }
    Life& life = lives[life_of[i]];
    life.signal = static_cast<int>(i);
    life.last_read = std::max(life.last_read, use.last_read[i]);
    life.ready = std::max(life.ready, use.ready[i]);
    life.max = std::max(life.max, net.signals()[i].max);
  }
  return lives;
}

// First MLP (half-layer) that may clear the content: with its last reader, or after its last contribution.
int FirstClear(const Life& life) {
  const int after_read = NextMlp(life.last_read), after_write = life.ready + (life.ready % 2 == 0 ? 1 : 2);
  return std::max(after_read, after_write);
}

// The layer with the fewest neurons between the life's end and the next content.
void ChooseClear(Life& life, int next_first, std::vector<int>& load) {
  int best = FirstClear(life);
  for (int time = best; time <= next_first; time += 2) {
    if (load[time / 2] < load[best / 2]) best = time;
  }
  life.clear_at = best / 2;
  ++load[best / 2];
}

}  // namespace

double Scale(const Netlist& net, int32_t signal) { return std::exp2(-std::ceil(std::log2(net.signals()[signal].max))); }

Places AllocatePlaces(const MachineNetlist& machine, int fixed, std::vector<int> load) {
  Places places;
  std::vector<int> life_of;
  places.lives = CollectLives(machine, life_of);
  std::vector<int> order(places.lives.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return places.lives[a].first < places.lives[b].first; });
  std::vector<int> occupant;  // life in each dimension, or -1
  std::vector<int> dimension_of(places.lives.size(), -1);
  for (int index : order) {
    const Life& life = places.lives[index];
    int best = -1;
    for (size_t d = 0; d < occupant.size(); ++d) {
      if (FirstClear(places.lives[occupant[d]]) > life.first) continue;
      if (best < 0 || places.lives[occupant[d]].last_read > places.lives[occupant[best]].last_read) {
        best = static_cast<int>(d);
      }
    }
    if (best < 0) {
      best = static_cast<int>(occupant.size());
      occupant.push_back(index);
    } else {
      ChooseClear(places.lives[occupant[best]], life.first, load);
      occupant[best] = index;
    }
    dimension_of[index] = fixed + best;
  }

  places.width = fixed + static_cast<int>(occupant.size());
  places.dimension.assign(life_of.size(), -1);
  for (size_t i = 0; i < life_of.size(); ++i) {
    if (life_of[i] >= 0) places.dimension[i] = dimension_of[life_of[i]];
  }
  return places;
}

}  // namespace qgpu
