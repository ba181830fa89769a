// Each slot of the Trainer filled rightly, as the neighbours fill it wrongly: it must compile.
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/survival/continue_on_survivors.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, Sgd, InMemory<>> trainer;
Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, StaticLossScale, InMemory<>, Sgd> any_order;
Trainer<LeNet, Ring<fp16>, Warmup<Poly<2>>, Compute<bf16>, Sgd> in_bf16;

struct Owner : Ring<fp32> {
    static constexpr UpdateOwnership owns_update{.in_parts = true};
    std::vector<ChunkRange> updated_by(int rank) const;
    void own_update(int rank, std::span<float> state);
    ReduceReport updated(Transport auto& link, const OwnedUpdate& made);
};
Trainer<LeNet, Owner, Poly<2>, ContinueOnSurvivors> goes_on;
