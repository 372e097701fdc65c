package hip

const libraryStem = "amdhip64"

func libraryNames() []string { return []string{"amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"} }
