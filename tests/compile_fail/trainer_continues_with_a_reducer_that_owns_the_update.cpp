// expect: gx: ContinueOnSurvivors needs ranks that all hold the same state
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/survival/continue_on_survivors.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

struct Owner : Ring<fp32> {
    static constexpr UpdateOwnership owns_update{};
    std::vector<ChunkRange> updated_by(int rank) const;
    void own_update(int rank, std::span<float> state);
    ReduceReport updated(Transport auto& link, const OwnedUpdate& made);
};
Trainer<LeNet, Owner, Poly<2>, ContinueOnSurvivors> trainer;
