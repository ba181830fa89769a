#include <tools/predict/parameter_profile.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

namespace {

using namespace gx::tools::predict;

// ---- Cases worked by hand -----------------------------------------------------------
TEST(ParameterProfiles, FindsTheLongestName) {
    ASSERT_NE(profile_of("VGG-19 (batch norm)"), nullptr);
    EXPECT_EQ(profile_of("VGG-19")->millions, 143.67);
    EXPECT_EQ(profile_of("MobileNet v2")->name, "mobilenetv2");
    EXPECT_EQ(profile_of("MobileNet")->name, "mobilenet");
    EXPECT_EQ(profile_of("Transformer (big)")->name, "transformerbig");
    EXPECT_EQ(profile_of("a new network"), nullptr);
    EXPECT_EQ(profile_of("CLIP ViT-B/32")->name, "vitb");
    EXPECT_EQ(profile_of("SSD-VGG16")->name, "ssd");
    EXPECT_EQ(profile_of("Wide ResNet-50-2")->name, "wideresnet502");
    EXPECT_EQ(profile_opening("CLIP ViT-B/32"), nullptr);
}
TEST(ParameterProfiles, ReadsTheNumberOfParametersInAName) {
    EXPECT_EQ(millions_in("GPT-2 345M"), 345);
    EXPECT_EQ(millions_in("GPT 1.3B"), 1300);
    EXPECT_EQ(millions_in("Llama-2 7B"), 7000);
    EXPECT_EQ(millions_in("GPT-3 175 billion"), 175'000);
    for (const char* name : {"ResNet-50", "BERT-base", "ViT-B/16", "GPT-2 medium", "ResNet-50 by",
                             "EfficientNet-B4", "4 big layers", "YOLOv5m", ""})
        EXPECT_EQ(millions_in(name), 0) << name;
}

// ---- A property of every row --------------------------------------------------------
TEST(ParameterProfiles, SharesAreShares) {
    for (const ParameterProfile& o : parameter_profiles()) {
        EXPECT_EQ(profile_of(o.name), &o) << o.name << ": once, and in plain letters";
        EXPECT_GT(o.millions, 0);
        EXPECT_TRUE(o.first >= 0 && o.last >= 0 && o.first + o.last < 1) << o.name;
    }
}

}  // namespace
