// expect: gx: this World can't go on without a rank: no 'gx::Survivors<World> survivors(
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/reference/device.hpp>
#include <gx/survival/continue_on_survivors.hpp>
#include <gx/threads/threads.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

struct Fixed {
    using World = Threads<2, reference::Device>;
    using Rank = World::Rank;
    World world{};
    [[nodiscard]] int ranks() const { return world.ranks(); }
    [[nodiscard]] Placement placement() const { return world.placement(); }
    void run(FunctionRef<void(Rank&)> f) { world.run(f); }
};

RunRecord train(Fixed& world, const Split& data) {
    return Trainer<LeNet, Ring<fp16>, Poly<2>, ContinueOnSurvivors>().train(world, data);
}
