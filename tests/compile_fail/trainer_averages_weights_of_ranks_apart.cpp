// expect: gx: each rank applies gradients of its own, so the averages of the weights that
#include <gx/model/lenet.hpp>
#include <gx/optimizer/weight_average.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

struct Owner : Ring<fp32> {
    static constexpr UpdateOwnership owns_update{.apart = true};
    std::vector<ChunkRange> updated_by(int rank) const;
    void own_update(int rank, std::span<float> state);
    ReduceReport updated(Transport auto& link, const OwnedUpdate& made);
    bool replicas_are_equal() const;
};
Trainer<LeNet, Owner, Poly<2>, WeightAverage<Sgd>> trainer;
