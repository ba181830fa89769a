#include <gx/sim/hardware/nvlink_rings.hpp>  // first, so the header is seen to stand alone

#include <numeric>  // iota
#include <set>      // GPUs of a ring

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/sim/catalog/find_machine.hpp>  // meshes

namespace {

using gx::sim::GpuRing;
using gx::sim::MachineSpec;

/// Every ring visits every GPU once, and together they use no link twice.
bool share_no_link(const MachineSpec& m, const std::vector<GpuRing>& rings) {
    auto left = m.wiring.nvlinks;
    const auto gpus = static_cast<std::size_t>(m.gpus);
    for (const GpuRing& r : rings) {
        if (std::set(r.begin(), r.begin() + m.gpus).size() != gpus) return false;
        for (std::size_t i = 0; i < gpus; ++i) {
            const std::size_t a = r[i], b = r[(i + 1) % gpus];
            if (left[a][b] == 0) return false;
            --left[a][b];
            --left[b][a];
        }
    }
    return true;
}

// ---- Machines that are known --------------------------------------------------------
TEST(Rings, TheMeshesOfDgx1AreThreeRingsAndTwo) {
    const MachineSpec v = gx::sim::find_machine("DGX-1V"), p = gx::sim::find_machine("DGX-1P");
    EXPECT_EQ(gx::sim::find_rings(v.wiring, 8).size(), 3u) << "6 links of each GPU, 2 a ring";
    EXPECT_EQ(gx::sim::find_rings(p.wiring, 8).size(), 2u);
    EXPECT_TRUE(share_no_link(v, gx::sim::find_rings(v.wiring, 8)));
    EXPECT_TRUE(share_no_link(p, gx::sim::find_rings(p.wiring, 8)));
}
TEST(Rings, PcieHasNone) {
    EXPECT_TRUE(gx::sim::find_rings(gx::sim::find_machine("p2.16xlarge").wiring, 16).empty());
}

// ---- A property: numbering does not matter ------------------------------------------
RC_GTEST_PROP(Rings, AnyNumberingOfAMeshIsPutInRingOrder, ()) {
    const MachineSpec m = gx::sim::find_machine(*rc::gen::element("DGX-1V", "DGX-1P"));
    std::vector<int> order(8);
    std::iota(order.begin(), order.end(), 0);
    for (int i = 8; i > 1; --i)
        std::swap(order[std::size_t(i) - 1], order[std::size_t(*rc::gen::inRange(0, i))]);
    MachineSpec mixed = m;
    for (std::size_t a = 0; a < 8; ++a)
        for (std::size_t b = 0; b < 8; ++b)
            mixed.wiring.nvlinks[std::size_t(order[a])][std::size_t(order[b])] =
                m.wiring.nvlinks[a][b];
    const MachineSpec put = gx::sim::in_ring_order(mixed);
    for (std::size_t a = 0; a < 8; ++a) RC_ASSERT(put.wiring.nvlinks[a][(a + 1) % 8] > 0);
    RC_ASSERT(put.wiring.ring_count == m.wiring.ring_count);
    std::vector<GpuRing> rings(put.wiring.rings.begin(),
                               put.wiring.rings.begin() + put.wiring.ring_count);
    RC_ASSERT(share_no_link(put, rings));
}

}  // namespace
