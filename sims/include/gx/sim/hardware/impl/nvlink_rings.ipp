// find_rings: a depth-first search over NVLinks; in_ring_order.
#pragma once

#include <algorithm>  // max, min
#include <cstddef>    // size_t

#include <gx/sim/hardware/nvlink_rings.hpp>  // find_rings

namespace gx::sim {

namespace detail::rings {

/// Searches ring after ring, depth first, GPUs in order; gives up after `patience` steps.
class Search {
public:
    Search(const Wiring& w, int gpus) : left_(w.nvlinks), gpus_(gpus) {
        most_ = Wiring::most_rings;
        for (int a = 0; a < gpus; ++a) {
            int degree = 0;
            for (int b = 0; b < gpus; ++b) degree += left(a, b);
            most_ = std::min(most_, degree / 2);
        }
        if (gpus > 2 && most_ > 0) extend(1);
    }
    [[nodiscard]] const std::vector<GpuRing>& best() const { return best_; }

private:
    [[nodiscard]] unsigned char& left(int a, int b) {
        return left_[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
    }
    void take(int a, int b, int links) {
        left(a, b) = static_cast<unsigned char>(left(a, b) - links);
        left(b, a) = left(a, b);
    }
    [[nodiscard]] bool done() const {
        return static_cast<int>(best_.size()) == most_ || steps_ > patience;
    }
    /// The ring under way has `count` GPUs, the first of them 0.
    void extend(int count) {
        const int last = ring_[static_cast<std::size_t>(count - 1)];
        ++steps_;
        if (count == gpus_) return close(last);
        for (int next = 1; next < gpus_ && !done(); ++next) {
            if (used_[static_cast<std::size_t>(next)] || left(last, next) == 0) continue;
            used_[static_cast<std::size_t>(next)] = true;
            ring_[static_cast<std::size_t>(count)] = static_cast<unsigned char>(next);
            take(last, next, 1);
            extend(count + 1);
            take(last, next, -1);
            used_[static_cast<std::size_t>(next)] = false;
        }
    }
    void close(int last) {
        if (left(last, 0) == 0) return;
        take(last, 0, 1);
        found_.push_back(ring_);
        if (found_.size() > best_.size()) best_ = found_;
        const auto ring = ring_;
        const auto used = used_;
        used_ = {};
        ring_ = {};
        if (!done()) extend(1);
        ring_ = ring;
        used_ = used;
        found_.pop_back();
        take(last, 0, -1);
    }

    static constexpr int patience = 1'000'000;
    decltype(Wiring::nvlinks) left_;
    int gpus_, most_ = 0, steps_ = 0;
    GpuRing ring_{};
    std::array<bool, Wiring::most_gpus> used_{};
    std::vector<GpuRing> found_{}, best_{};
};

}  // namespace detail::rings

GX_DECL std::vector<GpuRing> find_rings(const Wiring& w, int gpus) {
    return detail::rings::Search(w, gpus).best();
}

GX_DECL MachineSpec in_ring_order(const MachineSpec& m) {
    const std::vector<GpuRing> rings = find_rings(m.wiring, m.gpus);
    MachineSpec out = m;
    Wiring& w = out.wiring;
    GpuRing place{};  // new number of each GPU
    const auto gpus = static_cast<std::size_t>(m.gpus);
    for (std::size_t i = 0; i < gpus; ++i)
        place[rings.empty() ? i : rings[0][i]] = static_cast<unsigned char>(i);
    for (std::size_t a = 0; a < gpus; ++a) {
        w.gpu[place[a]] = m.wiring.gpu[a];
        for (std::size_t b = 0; b < gpus; ++b)
            w.nvlinks[place[a]][place[b]] = m.wiring.nvlinks[a][b];
    }
    w.ring_count = std::max(1, static_cast<int>(rings.size()));
    w.rings = {};
    for (std::size_t i = 0; i < gpus; ++i) w.rings[0][i] = static_cast<unsigned char>(i);
    for (std::size_t k = 1; k < rings.size(); ++k)
        for (std::size_t i = 0; i < gpus; ++i) w.rings[k][i] = place[rings[k][i]];
    return out;
}

}  // namespace gx::sim
