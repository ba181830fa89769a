// expect: gx: this reducer learns on the host whether a mean was applied
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/pipeline.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/testing/far/transport.hpp>

struct Settling : gx::Ring<> {
    void settle(std::uint64_t, bool) {}
};

void settle(
    gx::Pipeline<gx::Bucketed<Settling, 8>, gx::testing::FarQueue, gx::testing::FarTransport>& p,
    gx::ViewIn<gx::Flag, gx::testing::FarMemory> flag) {
    p.settle({flag}, {});
}
