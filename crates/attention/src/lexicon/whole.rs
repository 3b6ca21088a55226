//! Phrases that mean something if a message consists of them only.

pub(super) const THANKS: &str = "
    thanks|thank you|thank u|thanks you|thx|thnx|tnx|tx|ty|tysm|tyvm|thanks a lot|thanks so much|thank you so much
    thank you very much
    many thanks|thanks a million|thanks a ton|thanks a bunch|much appreciated|appreciated|appreciate it
    i appreciate it
    we appreciate it|cheers|kudos|great job|good job|nice job|great work|good work|nice work|well done|nicely done
    good bot|youre a star|you are a star|youre a legend|you are a legend|youre amazing|you are amazing
    you rock|youre the best|you are the best|awesome thanks|lifesaver|thanks for the help|thanks for your help
    thank you for your help|thanks for that|thanks for this|thanks for everything|thank you for everything
    thanks for the update
    thanks for letting me know|thanks for the info|thanks in advance|bless you|youre welcome|you are welcome
    no problem|np|my pleasure|anytime
    thats kind|that is kind|thats very kind|that is very kind|thats so kind|that is so kind|thats really kind
    that is really kind|that was kind|that was very kind|so kind|very kind|how kind|too kind|youre too kind
    you are too kind|youre very kind|you are very kind|youre so kind|you are so kind|thats helpful|that is helpful
    thats very helpful|that is very helpful|thats really helpful|that is really helpful|that was helpful
    that was very helpful|that was really helpful|this is helpful|this is very helpful|this was very helpful
    very helpful|so helpful|super helpful|really helpful|that helps|that helps a lot|this helps|this helps a lot
    that really helps|that helped|that helped a lot|thats nice|that is nice|thats very nice|that is very nice
    thats so nice|that is so nice|how nice|thats sweet|that is sweet|how sweet|very thoughtful|how thoughtful
    i really appreciate it|i really appreciate that|really appreciate it|i appreciate that|i appreciate your help
    we really appreciate it|much obliged|im grateful|i am grateful|im very grateful|i am very grateful|so grateful
    very grateful|you made my day|you saved my day|exactly what i needed|just what i needed
    thats exactly what i needed|that is exactly what i needed|have a nice day|have a great day|have a good day
    danke|danke schön|danke dir|danke euch|danke ihnen|danke sehr|danke vielmals|vielen dank|vielen lieben dank
    herzlichen dank
    besten dank|tausend dank|lieben dank|dankeschön|merci vielmals|gern geschehen|bitte|bitte schön|bitte sehr
    du bist der beste|du bist die beste|du bist super|du bist spitze
    keine ursache|gute arbeit|gut gemacht|super arbeit
    das ist nett|das ist sehr nett|das ist lieb|das ist sehr lieb|das ist sehr freundlich|sehr nett|sehr lieb
    sehr freundlich|wie nett|das hilft|das hilft mir|das hilft mir sehr|das hat sehr geholfen|sehr hilfreich
    das ist sehr hilfreich|das war sehr hilfreich
    merci|merci beaucoup|merci bien|mille mercis|un grand merci|grand merci|merci à tous|merci à toi|merci à vous
    merci infiniment|de rien|je vous en prie|bon travail|bien joué
    tu es le meilleur|tu es la meilleure|tu es génial|tu es géniale
    c'est gentil|c'est très gentil|c'est vraiment gentil|c'est très aimable|très gentil|très aimable|très utile
    c'est très utile|ça m'aide beaucoup
    gracias|muchas gracias|muchísimas gracias|mil gracias|gracias a todos|te lo agradezco|se agradece|de nada
    buen trabajo|bien hecho|eres un crack|eres una crack|eres el mejor|eres la mejor|eres genial
    muy amable|eres muy amable|es muy amable|es usted muy amable|qué amable|muy útil|me ayuda mucho
    ha sido de gran ayuda
    obrigado|obrigada|muito obrigado|muito obrigada|obrigadão|valeu|brigado|brigada|agradeço|bom trabalho
    muito gentil|é muito gentil|muita gentileza|que gentil|ajudou muito|muito útil
    grazie|grazie mille|molte grazie|tante grazie|mille grazie|grazie a tutti|ti ringrazio|vi ringrazio|prego
    ottimo lavoro|ben fatto
    molto gentile|sei molto gentile|è molto gentile|gentilissimo|gentilissima|che gentile|molto utile
    dank je|dank je wel|dankjewel|dank u|dank u wel|dankuwel|bedankt|hartelijk dank|heel erg bedankt
    hartstikke bedankt|graag gedaan|goed gedaan|goed werk
    heel aardig|dat is heel aardig|erg aardig|heel vriendelijk|dat is heel vriendelijk|heel nuttig
    dzięki|dziękuję|dziękuję bardzo|bardzo dziękuję|wielkie dzięki|dzięki wielkie|dziękujemy|dzięx|nie ma za co
    dobra robota
    bardzo miłe|to bardzo miłe|bardzo miło|to bardzo miło|bardzo pomocne|to bardzo pomocne
    спасибо|спасибо большое|большое спасибо|огромное спасибо|спасибо огромное|спс|благодарю|спасибо вам|спасибо тебе
    спасибо всем|пожалуйста|не за что|отличная работа|молодец
    очень мило|это очень мило|очень любезно|это очень любезно|вы очень добры|ты очень добр|очень помогло|очень помогли
    дякую|дуже дякую|дякую дуже|щиро дякую|красно дякую|дякую вам|дякую тобі|дякуємо|нема за що|гарна робота|молодці
    дуже мило|це дуже мило|дуже люб'язно|це дуже люб'язно|дуже допомогло
    teşekkürler|teşekkür ederim|teşekkür ederiz|çok teşekkürler|çok teşekkür ederim|sağ ol|sağol|sağ olun|eyvallah
    tşk|rica ederim|bir şey değil|eline sağlık|ellerine sağlık
    çok naziksiniz|çok naziksin|çok kibarsınız|çok kibarsın|çok yardımcı oldu
    谢谢|謝謝|谢谢你|謝謝你|谢谢您|謝謝您|谢谢大家|謝謝大家|多谢|多謝|感谢|感謝|非常感谢|非常感謝|十分感谢|谢了|謝了
    谢啦|辛苦了|不客气|不客氣|干得好|做得好
    再次感谢|你太厉害了|你真厉害|你太棒了
    你真好|您真好|你人真好|真好|太客气了|太感谢了|太谢谢了|非常有帮助|很有帮助|帮大忙了
    ありがとう|ありがとうございます|ありがとうございました|どうもありがとう|どうもありがとうございます|どうも|有難う
    有難うございます|感謝します|サンキュー|お疲れ様|お疲れ様です|お疲れ様でした|助かりました|助かります
    どういたしまして
    本当にありがとう|本当にありがとうございます|さすがです
    ご親切に|とても助かりました|本当に助かりました|とても親切ですね
    감사합니다|감사해요|감사|고마워|고마워요|고맙습니다|정말 감사합니다|대단히 감사합니다|땡큐|수고하셨습니다
    수고했어|수고했어요|천만에요
    정말 친절하시네요|친절하시네요|큰 도움이 됐어요|큰 도움이 되었습니다|많은 도움이 됐어요
    धन्यवाद|बहुत धन्यवाद|बहुत बहुत धन्यवाद|आपका धन्यवाद|शुक्रिया|बहुत शुक्रिया|बहुत बहुत शुक्रिया|आभार|थैंक्स|थैंक यू
    dhanyavaad|dhanyavad|shukriya
    आप बहुत दयालु हैं|बहुत मदद मिली|बहुत मददगार
    شكرا|شكرا لك|شكرا لكم|شكرا جزيلا|شكرا كثيرا|ألف شكر|جزيل الشكر|مشكور|مشكورين|تسلم|يسلمو|جزاك الله خيرا|عفوا
    أحسنت
    لطف منك|هذا لطف منك|هذا لطيف جدا|أنت لطيف جدا|مفيد جدا
    🙏|❤|🧡|💛|💚|💙|💜|🖤|💖|💐|🌹|🥰|😍|🤗|🙇|🎉|🥳|👏|🙌|💪|🏆|⭐|🌟";

pub(super) const ACKNOWLEDGEMENTS: &str = "
    ok|okay|okey|okie|okidoki|oki|k|kk|okok|got it|gotcha|i got it|got that|understood|i understand|noted|duly noted
    roger|roger that|copy|copy that|ack|acked|acknowledged
    lgtm|looks good|looks good to me|sounds good|sounds great|sounds like a plan|all good|all right|alright|fine
    perfect|great|good|nice|cool|awesome|excellent|amazing|wonderful|fantastic|brilliant|lovely|super
    sure|sure thing|of course|will do|on it|im on it|i am on it|works for me|makes sense|i see|ah i see|oh i see
    right|agreed|i agree|exactly|indeed|true|fair enough|good point|good to know
    received|seen|read|wow|haha|hahaha|lol|yay|yup got it|very good|very well|wilco|aye|aye aye|no worries
    thats great|that is great|thats fine|that works|great stuff|good stuff|nice catch|good catch|nice one|neat|sweet
    no rush|no hurry|take your time|impressive|beautiful
    verstanden|alles klar|alles gut|klar|in ordnung|okeydokey|passt|passt so|passt schon|gut|sehr gut|super|prima
    kein stress|kein problem|keine eile|keine sorge|toll|klasse|großartig|wunderbar|sehr schön|spitze
    perfekt|einverstanden|geht klar|mach ich|wird gemacht|jawohl|stimmt|genau|notiert|sieht gut aus|gesehen
    compris|bien reçu|reçu|d'accord|entendu|c'est noté|noté|parfait|très bien|ça marche|super|génial|c'est bon
    bien vu|vu|exact|pas de souci|pas de problème|pas de soucis|bien sûr|volontiers|excellent|magnifique
    entendido|de acuerdo|vale|recibido|perfecto|muy bien|está bien|genial|anotado|claro|comprendido
    bueno|visto|tranquilo|tranquila|sin prisa|sin problema|estupendo|fantástico|por supuesto|excelente
    entendi|entendido|combinado|beleza|blz|tá bom|está bem|certo|perfeito|ótimo|muito bem|anotado|recebido
    claro|visto
    capito|ho capito|va bene|d'accordo|ricevuto|perfetto|ottimo|benissimo|certo|inteso|visto|tutto chiaro|bene
    begrepen|duidelijk|prima|goed|helemaal goed|in orde|akkoord|genoteerd|komt goed|oké|top|perfect|ontvangen|gezien
    is goed
    rozumiem|zrozumiałem|zrozumiałam|jasne|dobra|dobrze|w porządku|okej|przyjąłem|przyjęte|super|świetnie|zgoda
    odebrałem|spoko
    понял|поняла|понятно|ясно|хорошо|ладно|окей|ок|принято|принял|приняла|договорились|отлично|супер|согласен
    согласна|ага|угу|вижу|класс
    зрозумів|зрозуміла|зрозуміло|ясно|добре|гаразд|окей|ок|прийнято|домовились|домовилися|чудово|супер|згоден|згодна
    бачу|клас
    tamam|tamamdır|anladım|anlaşıldı|peki|oldu|olur|süper|harika|güzel|mükemmel|aynen|kabul|gördüm|not aldım|elbette
    好|好的|好吧|好哒|好滴|行|可以|没问题|沒問題|知道了|明白|明白了|了解|收到|懂了|嗯|嗯嗯|好的好的|已阅|不错|很好
    太好了|完美|赞|ok的|没事|没关系|非常好|太厉害了|太棒了|棒|真棒|厉害|当然|是的|对
    了解|了解です|了解しました|承知しました|承知いたしました|かしこまりました|わかりました|分かりました|わかった
    分かった|はい|オーケー|オッケー|大丈夫です|なるほど|いいね|いいですね|ラジャー|りょ|り|確認しました|うん
    完璧です|完璧|最高|最高です|とてもいい|とてもいいです|大丈夫|素晴らしい|素晴らしいです|すごい|すごいです|さすが|もちろん|もちろんです|いいですよ|ええ
    알겠습니다|알겠어요|알겠어|알았어|알았어요|네|넵|넹|예|응|오케이|ㅇㅋ|ㅇㅇ|확인|확인했습니다|확인했어요|좋아요
    좋아|좋습니다|이해했습니다|그래|그래요|완벽해요
    ठीक है|ठीक|अच्छा|समझ गया|समझ गई|समझ गए|जी|जी हाँ|हाँ ठीक है|बढ़िया|बहुत अच्छा|मिल गया|ओके|theek hai|thik hai|accha
    samajh gaya
    حسنا|تمام|فهمت|مفهوم|طيب|ماشي|موافق|واضح|استلمت|وصل|ممتاز|رائع|جيد|أوكي|اوكي|حاضر|علم|جميل
    👍|✅|👌|🆗|✔|☑|💯|🫡|👀|🤝|🙂|😀|😃|😄|😁|😊|😎|🚀|🔥|✨|🤙|😂|🤣|👋";

pub(super) const APPROVALS: &str = "
    approved|i approve|you have my approval|go ahead|please go ahead|go for it|ship it|permission granted|granted
    you may proceed|please proceed|proceed|youre good to go|good to go|green light|do it|please do|yes please
    genehmigt|freigegeben|ich genehmige|mach das|mach es|mach weiter|nur zu|approuvé|j'approuve|vas y|allez y|fais le|aprobado
    apruebo|adelante|procede|dale|hazlo|aprovado|aprovo|pode seguir|pode prosseguir|vai em frente
    approvato|approvo|procedi|vai pure|goedgekeurd|ga je gang|ga door|zatwierdzone|zatwierdzam|działaj|одобрено
    одобряю|разрешаю|действуй|давай|схвалено|схвалюю|дозволяю|дій|onaylandı|onaylıyorum|devam et|onay verildi
    批准|已批准|同意|我同意|可以开始|去做吧|做吧|继续|继续吧|承認|承認します|承認しました|進めてください|やってください|どうぞ|승인|승인합니다
    승인했습니다|진행하세요|진행해 주세요|स्वीकृत|मंज़ूर|मंजूर है|आगे बढ़ो|موافقة|تمت الموافقة|أوافق|تفضل|انطلق";

pub(super) const WITHDRAWALS: &str = "
    never mind|nevermind|nvm|forget it|forget about it|forget that|scratch that|disregard|disregard that|ignore that
    ignore my last message|dont do it|dont do that|do not do it|do not do that|no longer needed|not needed anymore
    dont bother
    vergiss es|schon gut|egal|lass es|lass gut sein|hat sich erledigt
    laisse tomber|laissez tomber|oublie|oublie ça|peu importe|laisse
    olvídalo|déjalo|no importa|no hace falta|esquece|esqueça|deixa pra lá|não precisa|deixa
    lascia perdere|lascia stare|non importa|non serve più|laat maar|vergeet het|niet meer nodig
    nieważne|daj spokój|zapomnij|już nie trzeba|неважно|забудь|не надо|уже не нужно|неважливо|не треба
    вже не потрібно|vazgeç|vazgeçtim|boş ver|boşver|unut gitsin|gerek yok
    算了|不用了|やっぱりいいです|もういいです|忘れて|됐어요|됐어|잊어버려|रहने दो|रहने दीजिए|कोई बात नहीं
    لا داعي|انس الأمر|لا يهم|خلاص";

pub(super) const CANCELLATIONS: &str = "
    stop|stop it|stop that|stop this|stop now|stop everything|stop immediately|stop right now|stop working
    stop please|cancel|cancel it|cancel that|cancel this|abort|abort it|abort that|halt
    wait|wait wait|wait a moment|wait a minute|wait a second|wait a sec|hold on|hold on a moment|hold on a second
    hold on a sec|hold it|hold off|hang on|hang on a second|hang on a sec|pause|pause it|pause that|pause this
    stopp|stoppt|anhalten|aufhören|hör auf|hört auf|abbrechen|abbruch|brich ab|brich das ab|stornieren
    warte|warte mal|warte kurz|wartet|warten|moment mal|pausiere|pausieren
    arrête|arrêtez|arrête ça|arrête tout|stoppe|stoppez|annule|annulez|annule ça|attends|attendez|attends un peu
    para|para ya|parad|paren|para todo|detente|deténgase|alto|cancela|cancélalo|cancelar|espera|espere|esperad|esperen
    espera un momento|pausa
    pare|parar|cancele|cancela isso|espere um momento|pera
    fermati|fermo|ferma|basta|annulla|annullalo|aspetta|aspettate|aspetta un attimo
    hou op|ophouden|annuleer|annuleren|wacht|wacht even|pauzeer
    przestań|zatrzymaj|zatrzymaj się|anuluj|anuluj to|poczekaj|czekaj|zaczekaj|pauza
    стоп|стой|остановись|остановить|хватит|прекрати|отмена|отмени|отменить|отбой|подожди|подождите|погоди|пауза
    зупинись|зупини|досить|припини|скасуй|скасувати|скасовано|відміна|зачекай|почекай|зачекайте
    dur|durdur|yeter|iptal|iptal et|bekle|bekleyin|duraklat
    停|停止|停下|停一下|先停|住手|取消|取消吧|别做了|中止|打住|等一下|等等|等一等|先等等|先等一下|稍等|暂停|暫停|请停|请停下|请停止|请等一下|请暂停
    止めて|やめて|止まって|ストップ|中止|中止して|キャンセル|キャンセルして|取り消し|取り消して|待って|ちょっと待って
    待ってください|ちょっと待ってください|一時停止|一旦停止
    멈춰|멈춰요|멈추세요|그만|그만해|그만해요|중지|중단|중단해|취소|취소해|취소해줘|취소해 주세요|잠깐|잠깐만|잠깐만요
    기다려|기다려요|기다려 주세요|일시 중지
    रुको|रुकिए|रुक जाओ|बंद करो|रद्द करो|रद्द|छोड़ो|ठहरो
    توقف|توقفي|توقفوا|قف|أوقف|الغاء|إلغاء|ألغ|ألغي|ألغه|انتظر|انتظري|مهلا
    🛑|⛔";

pub(super) const FILLERS: &str = "
    so much|very much|a lot|a bunch|again|everyone|everybody|all|you all|yall|guys|folks|team|both|man|mate|buddy
    friend|friends|dear|sir|boss|you|too|also|then|so|well|oh|ah|aha|hm|hmm|yeah|yes|yep|yup|please|now|it|that|this
    really|for the help|for your help|for that|for this|for now|for everything|for the info|for the update
    for letting me know|for the quick reply|for the quick response|for checking|for looking|for fixing
    for doing this|hi|hello|hey|and|but|just|to|me|very|such
    of you|from you|for your time|for your support|for your patience|for your work|for all your help
    for the quick answer|for your quick reply|von dir|von ihnen|von euch|für die mühe|für deine mühe
    für die schnelle antwort|de ta part|de votre part|de tu parte|de su parte|da sua parte|da parte tua
    da parte sua|z twojej strony|с твоей стороны|с вашей стороны|з твого боку|з вашого боку
    alle|allen|euch|dir|dann|ja|und|auch|sehr|leute|nochmal|für die hilfe|für deine hilfe|für alles|tous|toutes
    tout le monde|oui|et|pour ton aide|pour votre aide|pour tout|alors|bonjour|todos|todas|sí|y|por todo
    por la ayuda|por tu ayuda|hola|sim|e|pela ajuda|por tudo|pessoal|tutti|tutte|sì|per tutto|per l'aiuto|ciao
    allemaal|jullie|en|voor de hulp|wszystkim|wszystko|za wszystko|za pomoc|tak|i|всем|да|и|за помощь|за всё|вам
    тебе|всім|так|і|та|за допомогу|за все|herkese|evet|ve|çok|her şey için|大家|你们|您|你|啊|呀|啦|哦|了|吧|的|さん
    です|ます|ね|よ|皆さん|みなさん|本当に|정말|모두|여러분|सभी|सबको|आप|आपको|बहुत|لك|لكم|جميعا|نعم|و|جدا";

/// Thanks that are thanks with anything behind them.
pub(super) const GRATITUDE: &str = "
    thanks|thank you|thx|ty|many thanks|cheers|danke|vielen dank|danke dir|danke euch|merci|merci beaucoup|gracias
    muchas gracias|obrigado|obrigada|grazie|grazie mille|dank je|dank u|bedankt|dziękuję|dzięki|спасибо|дякую
    teşekkürler|teşekkür ederim|谢谢|謝謝|多谢|多謝|感谢|感謝|ありがとう|ありがとうございます|감사합니다|고마워|고마워요
    धन्यवाद|शुक्रिया|شكرا";
