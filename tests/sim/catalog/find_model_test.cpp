#include <gx/sim/catalog/find_model.hpp>

#include <gtest/gtest.h>

namespace {

using gx::sim::find_model;

std::string refused(std::string_view name) {
    try {
        (void)find_model(name);
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "not refused";
}

TEST(FindModel, KnowsSpellings) {
    for (const char* name : {"ResNet-50", "resnet50", "ResNet 50", "RESNET_50"})
        EXPECT_EQ(find_model(name).make({}).parameter_elements(), 25'557'032) << name;
    EXPECT_EQ(find_model("resnet-50-v1").name, "ResNet-50 v1");
    EXPECT_EQ(find_model("inception v3").name, "Inception-v3");
}
TEST(FindModel, EveryNameFindsItsOwnGraph) {
    for (const gx::sim::KnownModel& m : gx::sim::models) {
        EXPECT_EQ(find_model(m.name).make, m.make);
        EXPECT_GT(m.make({}).macs(), 0) << m.name;
    }
}
TEST(FindModel, NamesTheNearest) {
    EXPECT_EQ(refused("resnet51"), "unknown model 'resnet51': did you mean 'ResNet-50'?");
    EXPECT_EQ(refused("Bert-lrge"), "unknown model 'Bert-lrge': did you mean 'BERT-large'?");
    EXPECT_NE(refused("transformer").find("known are ResNet-18, ResNet-34"), std::string::npos);
}

}  // namespace
