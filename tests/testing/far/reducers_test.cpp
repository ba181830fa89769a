// The Trainer over far memory by the plugins' other reducers: the bits of threads.
#include <gx/testing/far/device.hpp>

#include <gtest/gtest.h>

#include <gx/halving_doubling/reducer.hpp>
#include <gx/hierarchical/reducer.hpp>
#include <gx/optimizer/adamw.hpp>
#include <gx/optimizer/clip_by_global_norm.hpp>
#include <gx/optimizer/lamb.hpp>
#include <gx/optimizer/lars.hpp>
#include <gx/optimizer/weight_average.hpp>
#include <gx/parameter_server/reducer.hpp>
#include <gx/quantized/reducer.hpp>
#include <gx/recursive_doubling/reducer.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/shared_memory/reducer.hpp>
#include <gx/trainer/trainer.hpp>
#include <gx/trees/double_tree.hpp>
#include <gx/trees/tree.hpp>
#include <trainer/small.hpp>

namespace {

using namespace testing_support;
using namespace gx;
using gx::testing::QueueProgress;
using Far = gx::testing::FarWorld<gx::testing::FarDevice<reference::Device>>;

template <class T>
class TrainedOnFarMemory : public ::testing::Test {};
template <class R, class O = AdamW>
using Run = Trainer<Net, R, Constant, O>;
using Runs = ::testing::Types<
    Run<HalvingDoubling<fp32>>, Run<Hierarchical<fp16>>, Run<Hierarchical<Ring<fp32>, Ring<fp16>>>,
    Run<DoubleBuffered<DoubleTree<2, fp32>>>, Run<Bucketed<ParameterServer<fp16>, 64>>,
    Run<DoubleBuffered<Bucketed<SharedMemory<fp32>, 128>>>,
    Run<RecursiveDoubling<fp32>, WeightAverage<Lamb>>, Run<Bucketed<Tree<fp16>, 64>, Lars>,
    Run<Quantized<4>, ClipByGlobalNorm<Sgd>>>;
TYPED_TEST_SUITE(TrainedOnFarMemory, Runs);

TYPED_TEST(TrainedOnFarMemory, WeightsAreThoseOfThreads) {
    const Split data = images(40);  // 16 a step: the last of an epoch has fewer
    const Folder folder;
    typename TypeParam::Options o{.batch = 4, .epochs = 2, .seed = 3, .output = folder.path};
    const Placement placement{2, 2};
    ThreadWorld<reference::Device> wall({.placement = placement});
    const RunRecord expected = TypeParam(o).train(wall, data);
    o.resume = folder / "epoch-0001.safetensors";
    o.output.clear();
    for (const QueueProgress progress :
         {QueueProgress::late, QueueProgress::eager, QueueProgress::random}) {
        Far far({placement, 1, progress});
        expect_same_learning(TypeParam(o).train(far, data), expected);
        auto whole = o;
        whole.resume.clear();
        expect_same_learning(TypeParam(whole).train(far, data), expected);
    }
}

}  // namespace
